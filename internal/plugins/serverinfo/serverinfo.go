// Package serverinfo is the switch for what a gateway tells of itself.
package serverinfo

import "weir/internal/plugin"

// Plugin is server-info as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "server-info",
		Priority: 990,
		Scope:    "global",
		Doc:      "Has the gateway report itself to the store: its id, host name, version and the time of its start.",
	},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is empty.
type Config struct{}
