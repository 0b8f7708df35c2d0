// Package publicapi serves the public APIs of plugins on routes.
package publicapi

import "weir/internal/plugin"

// Plugin is public-api as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "public-api",
		Priority: 501,
		Doc:      "Serves on its route an API that another plugin offers.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	URI *string `json:"uri" doc:"Path of the API, if it is not the request's own."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	unknown := &plugin.Reply{Status: 404}
	access := func(r *plugin.Ctx) *plugin.Reply {
		path := r.Path
		if c.URI != nil {
			path = *c.URI
		}
		serve := env.Endpoint(r.Request.Method, path)
		if serve == nil {
			return unknown
		}
		return serve(r)
	}
	return plugin.Phases{Access: access}, nil
}
