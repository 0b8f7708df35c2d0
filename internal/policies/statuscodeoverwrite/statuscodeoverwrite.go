// Package statuscodeoverwrite replaces statuses of upstreams by others.
package statuscodeoverwrite

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is statuscode_overwrite.
var Policy = plugin.Define(
	plugin.Meta{Name: "statuscode_overwrite", Doc: "Replace the status of a response by another."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Statuses []Status `json:"http_statuses" doc:"What becomes what."`
}

// Status is one replacement.
type Status struct {
	Upstream threescale.Whole `json:"upstream" schema:"required" doc:"Status of the upstream, from 100 to 600."`
	APIcast  threescale.Whole `json:"apicast"  schema:"required" doc:"Status that the client gets, from 100 to 600; one below 200 could not end an exchange and is not sent."`
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	becomes := map[int]int{}
	for i, s := range c.Statuses {
		for _, n := range [...]threescale.Whole{s.Upstream, s.APIcast} {
			if n < 100 || n > 600 {
				return p, fmt.Errorf("http_statuses[%d]: %d is no status from 100 to 600", i, n)
			}
		}
		if s.APIcast >= 200 {
			becomes[int(s.Upstream)] = int(s.APIcast)
		}
	}
	if len(becomes) == 0 {
		return p, nil
	}
	p.Header = func(c *plugin.Ctx) {
		if to, ok := becomes[c.Response.Status]; ok {
			c.Response.Status, c.Response.Reason = to, ""
		}
	}
	return p, nil
}
