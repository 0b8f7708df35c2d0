// Package referrer tells 3scale's backend where callers come from.
package referrer

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is 3scale_referrer.
var Policy = plugin.Define(
	plugin.Meta{Name: "3scale_referrer", Doc: "Send the Referer header to 3scale's backend, which can then filter by it."},
	compile,
)

// Config is the policy's configuration.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		if from, ok := c.Header("Referer"); ok {
			r := threescale.Of(c)
			r.Extra = append(r.Extra, threescale.Parameter{Name: "referrer", Value: from})
		}
		return nil
	}}, nil
}
