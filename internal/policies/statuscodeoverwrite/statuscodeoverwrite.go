// Package statuscodeoverwrite replaces statuses of upstreams by others.
package statuscodeoverwrite

import (
	"weir/internal/plugin"
)

// Policy is statuscode_overwrite.
var Policy = plugin.Define(
	plugin.Meta{Name: "statuscode_overwrite", Doc: "Replace the status of a response by another."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Statuses []Status `json:"http_statuses" doc:"What becomes what."`
}

// Status is one replacement.
type Status struct {
	Upstream int `json:"upstream" schema:"required,min=100,max=600" doc:"Status of the upstream."`
	APIcast  int `json:"apicast"  schema:"required,min=100,max=600" doc:"Status that the client gets."`
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	becomes := map[int]int{}
	for _, s := range c.Statuses {
		becomes[s.Upstream] = s.APIcast
	}
	return plugin.Phases{Header: func(c *plugin.Ctx) {
		if to, ok := becomes[c.Response.Status]; ok {
			c.Response.Status, c.Response.Reason = to, ""
		}
	}}, nil
}
