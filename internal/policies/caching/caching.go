// Package caching chooses how answers of 3scale's backend are kept.
package caching

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is caching.
var Policy = plugin.Define(
	plugin.Meta{Name: "caching", Doc: "Choose how authorizations of 3scale's backend are kept, and what happens when it is down."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Type string `json:"caching_type" schema:"required" doc:"strict: only what was allowed is kept, until the backend says otherwise or nothing. resilient: the last answer is kept while the backend is down. allow: as resilient, and what was never asked is allowed then. none: the backend is always asked."`
}

func compile(conf *Config, env plugin.Env) (plugin.Phases, error) {
	mode := map[string]threescale.Caching{
		"strict": threescale.CachingStrict, "resilient": threescale.CachingResilient, "allow": threescale.CachingAllow,
	}[conf.Type]
	if mode == threescale.CachingDefault {
		if mode = threescale.CachingNone; conf.Type != "none" {
			env.Log.Error("invalid caching type, the cache is disabled", "caching_type", conf.Type)
		}
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		if r := threescale.Of(c); r.Caching == threescale.CachingDefault { // the first policy of a chain decides
			r.Caching = mode
		}
		return nil
	}}, nil
}
