// Package localchain stands for a policy that has nothing to do here.
package localchain

import "weir/internal/plugin"

// Policy is local_chain.
var Policy = plugin.Define(
	plugin.Meta{Name: "local_chain", Doc: "Accepted and without effect: the chain of a product is the one that runs."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
