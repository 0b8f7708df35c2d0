// Package liquidcontextdebug answers requests with what templates know of them.
package liquidcontextdebug

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/liquid"
)

// Policy is liquid_context_debug.
var Policy = plugin.Define(
	plugin.Meta{
		Name: "liquid_context_debug", Before: []string{"apicast", "upstream", "routing"},
		Doc: "Answers requests with what templates know of them, as JSON. For the making of templates: callers see their credentials.",
	},
	compile,
)

// Config is the policy's configuration: there is nothing to configure.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Content: func(c *plugin.Ctx) *plugin.Reply {
		if c.To.Upstream != nil {
			return nil
		}
		scope, all := threescale.ScopeOf(c), map[string]any{}
		for _, v := range threescale.Of(c).Values {
			all[v.Name] = v.Data
		}
		for _, name := range threescale.Names() {
			if v := scope(name); v != nil {
				all[name] = v
			}
		}
		return &plugin.Reply{Status: 200, Body: append(liquid.AppendJSON(nil, all), '\n')}
	}}, nil
}
