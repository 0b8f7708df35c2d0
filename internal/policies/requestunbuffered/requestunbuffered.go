// Package requestunbuffered stands for a policy that has nothing to do here.
package requestunbuffered

import "weir/internal/plugin"

// Policy is request_unbuffered.
var Policy = plugin.Define(
	plugin.Meta{Name: "request_unbuffered", Doc: "Accepted and without effect: no body waits in the gateway."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
