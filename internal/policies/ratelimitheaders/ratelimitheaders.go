// Package ratelimitheaders tells callers about the limits that 3scale's backend
// has for them.
package ratelimitheaders

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is rate_limit_headers.
var Policy = plugin.Define(
	plugin.Meta{Name: "rate_limit_headers", Doc: "Tell callers about their limits in 3scale: headers RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset."},
	compile,
)

// Config is the policy's configuration.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{
		Rewrite: func(c *plugin.Ctx) *plugin.Reply {
			threescale.Of(c).ShowsLimits = true
			return nil
		},
		Content: func(c *plugin.Ctx) *plugin.Reply {
			threescale.Of(c).ShowLimits(c)
			return nil
		},
	}, nil
}
