// Package management answers requests to a product as the management API does.
package management

import (
	"context"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is management.
var Policy = plugin.Define(
	plugin.Meta{Name: "management", Doc: "Answers requests as the management API does."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Mode string `json:"mode" doc:"disabled, status, policies or debug; absent: the process's."`
}

// patience is for what a request makes the gateway do.
const patience = time.Minute

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	rt := threescale.ProductOf(env).Runtime
	mode := c.Mode
	return plugin.Phases{Content: func(c *plugin.Ctx) *plugin.Reply {
		if c.To.Upstream != nil || rt.Manage == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out := rt.Manage(ctx, mode, c.Request.Method, c.Path, c.Buffer.Body)
		return &plugin.Reply{Status: out.Status, Header: [][2]string{{"Content-Type", out.Type}}, Body: out.Body}
	}}, nil
}
