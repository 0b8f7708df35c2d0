// Package onfailed refuses the requests to a product of which a policy does not
// work.
package onfailed

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is on_failed.
var Policy = plugin.Define(
	plugin.Meta{Name: "on_failed", Before: []string{"apicast"}, Doc: "Refuses the requests to a product of which a policy does not work."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Status threescale.Whole `json:"error_status_code" schema:"default=503" doc:"Status of the refusals, from 100 to 699."`
}

func compile(c *Config, env plugin.Env) (p plugin.Phases, err error) {
	if c.Status < 100 || c.Status > 699 {
		return p, fmt.Errorf("error_status_code %d is no status from 100 to 699", c.Status)
	}
	if c.Status < 200 { // could not end an exchange
		c.Status = 503
	}
	product := threescale.ProductOf(env)
	if product.OnBroken == nil { // the earliest in the chain has its way
		product.OnBroken = &plugin.Reply{Status: int(c.Status)}
	}
	return p, nil
}
