// Package standalone stands for a policy that has nothing to do here.
package standalone

import "weir/internal/plugin"

// Policy is standalone.
var Policy = plugin.Define(
	plugin.Meta{Name: "standalone", Doc: "Accepted and without effect in a product: the whole gateway is set up by its document."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
