// Package websocket lets upgrades to WebSocket pass.
package websocket

import (
	"weir/internal/plugin"
)

// Policy is websocket.
var Policy = plugin.Define(
	plugin.Meta{Name: "websocket", Doc: "Lets upgrades to WebSocket pass (RFC 6455 §4)."},
	compile,
)

// Config is the policy's configuration: there is nothing to configure.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		if _, upgrade := c.Header("Upgrade"); upgrade {
			_, c.To.Websocket = c.Header("Sec-WebSocket-Key")
		}
		return nil
	}}, nil
}
