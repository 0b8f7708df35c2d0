// Package clearcontext stands for a policy that has nothing to do here.
package clearcontext

import "weir/internal/plugin"

// Policy is clear_context.
var Policy = plugin.Define(
	plugin.Meta{Name: "clear_context", Doc: "Accepted and without effect: nothing outlives its phase here."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
