// Package upstreamconnection bounds how long an upstream may take.
package upstreamconnection

import (
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is upstream_connection.
var Policy = plugin.Define(
	plugin.Meta{Name: "upstream_connection", Doc: "Bounds how long an upstream may take."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration; what is absent is 60 seconds.
type Config struct {
	Connect threescale.Number `json:"connect_timeout" doc:"Seconds for a connection."`
	Send    threescale.Number `json:"send_timeout" doc:"Seconds between two writes."`
	Read    threescale.Number `json:"read_timeout" doc:"Seconds between two reads."`
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	t := &model.Timeout{Connect: duration(c.Connect), Send: duration(c.Send), Read: duration(c.Read)}
	if *t == (model.Timeout{}) {
		return p, nil
	}
	p.Rewrite = func(c *plugin.Ctx) *plugin.Reply {
		c.To.Timeout = t
		return nil
	}
	return p, nil
}

func duration(seconds threescale.Number) time.Duration {
	return schema.Seconds(max(seconds, 0))
}
