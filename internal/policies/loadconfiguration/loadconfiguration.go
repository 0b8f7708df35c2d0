// Package loadconfiguration stands for a policy that has nothing to do here.
package loadconfiguration

import "weir/internal/plugin"

// Policy is load_configuration.
var Policy = plugin.Define(
	plugin.Meta{Name: "load_configuration", Doc: "Accepted and without effect: the configuration is there before a request is."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
