// Package findservice stands for a policy that has nothing to do here.
package findservice

import "weir/internal/plugin"

// Policy is find_service.
var Policy = plugin.Define(
	plugin.Meta{Name: "find_service", Doc: "Accepted and without effect: the product is found before its chain runs."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
