// Package standalone is the policy that ends the chains of a standalone document's
// services: what they have not answered goes to their upstream.
package standalone

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is standalone.
var Policy = plugin.Define(
	plugin.Meta{Name: "standalone", Doc: "Ends the chains of the services of a standalone document; in other products it has no effect."},
	func(c *Config, env plugin.Env) (plugin.Phases, error) {
		if !c.Proxy || threescale.ProductOf(env).Upstream == nil {
			return plugin.Phases{}, nil
		}
		return plugin.Phases{Content: func(r *plugin.Ctx) *plugin.Reply { return threescale.Route(r) }}, nil // a function of this package: profiles know it by that
	},
)

// Config is the policy's configuration.
type Config struct {
	Proxy bool `json:"proxy" doc:"Whether requests go to the product's upstream."`
}
