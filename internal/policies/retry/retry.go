// Package retry lets requests have further tries.
package retry

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is retry.
var Policy = plugin.Define(
	plugin.Meta{Name: "retry", Doc: "Lets requests to an upstream that cannot be reached have further tries."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Retries threescale.Whole `json:"retries" doc:"Further tries, from 1 to 10; absent: none."`
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	if c.Retries < 0 || c.Retries > 10 {
		return p, fmt.Errorf("retries: %d is not from 1 to 10", c.Retries)
	}
	if c.Retries == 0 {
		return p, nil
	}
	n := int(c.Retries)
	p.Rewrite = func(c *plugin.Ctx) *plugin.Reply {
		c.To.Retries = &n
		return nil
	}
	return p, nil
}
