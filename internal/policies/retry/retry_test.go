package retry

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	tries := func(want int) []plugintest.Request {
		return []plugintest.Request{{Look: func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if n := c.To.Retries; n == nil && want != 0 || n != nil && *n != want {
				t.Errorf("%v further tries, want %d", n, want)
			}
		}}}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "none", Config: `{}`, Requests: tries(0)},
		{Name: "some", Config: `{"retries":5}`, Requests: tries(5)},
		{Name: "as text", Config: `{"retries":"10"}`, Requests: tries(10)},
		{Name: "too many", Config: `{"retries":11}`, Invalid: "retries: 11"},
		{Name: "below", Config: `{"retries":-1}`, Invalid: "retries: -1"},
	})
}
