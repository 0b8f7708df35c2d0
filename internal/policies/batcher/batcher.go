// Package batcher remembers what 3scale's backend has authorized, and reports what
// was used from time to time.
package batcher

import (
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is 3scale_batcher.
var Policy = plugin.Define(
	plugin.Meta{
		Name: "3scale_batcher", Guard: true,
		Doc: "Remember authorizations and report usage in batches. Limits may be exceeded by what is used during auths_ttl and batch_report_seconds together.",
	},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	AuthsTTL     threescale.Number `json:"auths_ttl" doc:"Seconds for which an authorization, or its refusal, is remembered. 0: 10."`
	BatchSeconds threescale.Number `json:"batch_report_seconds" doc:"Seconds from a use until it is reported. 0: 10."`
}

func compile(conf *Config, env plugin.Env) (plugin.Phases, error) {
	client, err := threescale.NewClient(env)
	if err != nil {
		return plugin.Phases{}, err
	}
	ttl := seconds(conf.AuthsTTL)
	batch := threescale.KeepBatch(env, client, seconds(conf.BatchSeconds))
	hits := threescale.NewCounter(env.Meter, "batching_policy_auths_cache_hits", "Hits in the auths cache of the 3scale batching policy")
	misses := threescale.NewCounter(env.Meter, "batching_policy_auths_cache_misses", "Misses in the auths cache of the 3scale batching policy")
	return plugin.Phases{
		Rewrite: func(c *plugin.Ctx) *plugin.Reply {
			r := threescale.Of(c)
			r.Delegated, r.Batch = true, batch
			return nil
		},
		Access: func(c *plugin.Ctx) *plugin.Reply {
			r := threescale.Of(c)
			if len(r.Usage) == 0 {
				return r.Product.NoMatch
			}
			reply, asked := client.Delegate(c, r, batch, ttl)
			if asked {
				misses.Count()
			} else {
				hits.Count()
			}
			return reply
		},
	}, nil
}

func seconds(n threescale.Number) time.Duration {
	if n <= 0 {
		n = 10
	}
	return schema.Seconds(n)
}
