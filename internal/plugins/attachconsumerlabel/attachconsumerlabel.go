// Package attachconsumerlabel tells the upstream the labels of the consumer.
package attachconsumerlabel

import (
	"maps"
	"slices"

	"weir/internal/plugin"
)

// Plugin is attach-consumer-label as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "attach-consumer-label",
		Priority: 2399,
		Doc:      "Sends labels of the authenticated consumer to the upstream in headers.",
	},
	compile,
	plugin.Shared(),
)

// Config is the configuration.
type Config struct {
	Headers map[string]string `json:"headers" schema:"required,minProps=1,each.pattern=^\\$.*" doc:"Header and, after a dollar sign, the label it carries. Without the label the header is removed, whoever sent it."`
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	type pair struct{ header, label string }
	var pairs []pair
	for _, header := range slices.Sorted(maps.Keys(c.Headers)) {
		pairs = append(pairs, pair{header, c.Headers[header][1:]})
	}
	before := func(r *plugin.Ctx) *plugin.Reply {
		for _, p := range pairs {
			r.ClearHeader(p.header)
			if r.Consumer == nil {
				continue
			}
			if value, there := r.Consumer.Labels[p.label]; there {
				r.SetHeader(p.header, value)
			}
		}
		return nil
	}
	return plugin.Phases{BeforeProxy: before}, nil
}
