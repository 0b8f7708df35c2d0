package upstreamconnection

import (
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	bounds := func(want *model.Timeout) []plugintest.Request {
		return []plugintest.Request{{Look: func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if got := c.To.Timeout; (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}}}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "none", Config: `{}`, Requests: bounds(nil)},
		{Name: "all", Config: `{"connect_timeout":1,"send_timeout":2.5,"read_timeout":"0.1"}`, Requests: bounds(&model.Timeout{Connect: time.Second, Send: 2500 * time.Millisecond, Read: 100 * time.Millisecond})},
		{Name: "one", Config: `{"read_timeout":3}`, Requests: bounds(&model.Timeout{Read: 3 * time.Second})},
		{Name: "negative", Config: `{"read_timeout":-3,"send_timeout":0}`, Requests: bounds(nil)},
		{Name: "endless", Config: `{"read_timeout":1e300}`, Requests: bounds(&model.Timeout{Read: 100 * 365 * 24 * time.Hour})},
		{Name: "no number", Config: `{"read_timeout":"soon"}`, Invalid: "number"},
	})
}
