// Package limitcount admits a number of requests per window and key.
package limitcount

import (
	"weir/internal/plugin"
	"weir/internal/quota"
)

const name = "limit-count"

// Plugin is limit-count as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 1002,
		Version:  0.5,
		Guard:    true,
		Doc:      "Admits a number of requests per window of time and key, counted in the gateway or in Redis.",
	},
	compile,
	plugin.Metadata[quota.Headers](),
	quota.Reword(),
	quota.Group(),
)

// Config is the configuration on a route.
type Config struct{ quota.Config }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	headers, err := plugin.DecodeMetadata[quota.Headers](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	limiter, err := quota.New(env, name, &c.Config, *headers)
	if err != nil {
		return plugin.Phases{}, err
	}
	// The functions are written here, so that profiles know them.
	if plain, ok := limiter.Plain(); ok {
		return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply { return plain.Take(r) }}, nil
	}
	return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply { return limiter.Take(r, 1) }}, nil
}
