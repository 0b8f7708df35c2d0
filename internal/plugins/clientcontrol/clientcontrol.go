// Package clientcontrol limits what clients may send.
package clientcontrol

import "weir/internal/plugin"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "client-control", Priority: 22000, Guard: true, Doc: "Sets the limit of request bodies."},
	compile,
	plugin.Shared(),
)

// Config is the configuration on a route.
type Config struct {
	MaxBodySize *int64 `json:"max_body_size" schema:"min=0" doc:"Limit of the request's body in bytes, above which the answer is 413; 0: no limit. A limit of nginx_config is checked first where the length is announced."`
}

var tooLarge = &plugin.Reply{Status: 413}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	if c.MaxBodySize == nil {
		return plugin.Phases{}, nil
	}
	limit := *c.MaxBodySize
	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		if limit == 0 {
			r.MaxBody = -1
			return nil
		}
		r.MaxBody = limit
		if r.Request.Length > limit {
			return tooLarge
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite}, nil
}
