package requestunbuffered

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	threescaletest.Run(t, Policy, []plugintest.Case{{Name: "expectations pass", Config: `{}`, Requests: []plugintest.Request{{
		Look: func(t *testing.T, c *plugin.Ctx) {
			if !c.To.Expect {
				t.Error("it does not")
			}
		},
	}}}})
}
