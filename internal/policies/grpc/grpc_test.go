package grpc

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	threescaletest.Run(t, Policy, []plugintest.Case{{Name: "HTTP/2", Config: `{}`, Requests: []plugintest.Request{{
		Look: func(t *testing.T, c *plugin.Ctx) {
			if !threescale.Of(c).Connect.HTTP2 {
				t.Error("it is not HTTP/2")
			}
			threescale.Route(c)
			if u := c.To.Upstream.(threescaletest.Reached); u.Scheme != "grpcs" {
				t.Errorf("it is %s", u.Scheme)
			}
		},
	}}}})
}
