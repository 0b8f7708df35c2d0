package websocket

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	type h = map[string]string
	passes := func(want bool) func(*testing.T, *plugin.Ctx) {
		return func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if c.To.Websocket != want {
				t.Errorf("passes: %v", c.To.Websocket)
			}
		}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{{Name: "upgrades", Config: `{}`, Requests: []plugintest.Request{
		{Look: passes(false)},
		{Header: h{"Upgrade": "websocket"}, Look: passes(false)},
		{Header: h{"Sec-WebSocket-Key": "x"}, Look: passes(false)},
		{Header: h{"Upgrade": "websocket", "Sec-WebSocket-Key": "x"}, Look: passes(true)},
	}}})
}
