package statuscodeoverwrite

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	becomes := func(from, to int) plugintest.Request {
		return plugintest.Request{Answer: plugintest.Answer{Status: from}, Look: func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if c.Response.Status != to {
				t.Errorf("%d becomes %d, want %d", from, c.Response.Status, to)
			}
		}}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "none", Config: `{}`, Requests: []plugintest.Request{becomes(200, 200)}},
		{Name: "some", Config: `{"http_statuses":[{"upstream":200,"apicast":201},{"upstream":201,"apicast":202},{"upstream":404,"apicast":200}]}`, Requests: []plugintest.Request{
			becomes(200, 201), becomes(201, 202), becomes(404, 200), becomes(500, 500),
		}},
		{Name: "what cannot end an exchange", Config: `{"http_statuses":[{"upstream":200,"apicast":100}]}`, Requests: []plugintest.Request{becomes(200, 200)}},
		{Name: "as text", Config: `{"http_statuses":[{"upstream":"200","apicast":"418"}]}`, Requests: []plugintest.Request{becomes(200, 418)}},
		{Name: "no status", Config: `{"http_statuses":[{"upstream":200}]}`, Invalid: "apicast"},
		{Name: "below", Config: `{"http_statuses":[{"upstream":99,"apicast":200}]}`, Invalid: "99"},
		{Name: "above", Config: `{"http_statuses":[{"upstream":200,"apicast":601}]}`, Invalid: "601"},
	})
}
