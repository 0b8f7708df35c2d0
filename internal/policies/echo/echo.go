// Package echo answers requests with their request line.
package echo

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/liquid"
)

// Policy is echo.
var Policy = plugin.Define(
	plugin.Meta{Name: "echo", Doc: "Answers requests with their request line."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Status threescale.Whole `json:"status" doc:"Status of the answer; absent: 200."`
	Exit   string           `json:"exit" doc:"request: the answer has the status alone and is sent before any other policy has a say; phase: the policies after this one do not see the rewrite phase; absent: neither."`
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	status := int(c.Status)
	if status < 200 || status > 999 {
		status = 0
	}
	switch {
	case c.Exit == "request" && status != 0:
		alone := &plugin.Reply{Status: status}
		if status < 300 {
			alone.Body = []byte{}
		}
		p.Rewrite = func(*plugin.Ctx) *plugin.Reply { return alone }
	case c.Exit == "request" || c.Exit == "phase":
		p.Rewrite = func(*plugin.Ctx) *plugin.Reply { return plugin.PhaseOver }
	}
	if status == 0 {
		status = 200
	}
	p.Content = func(c *plugin.Ctx) *plugin.Reply {
		if c.To.Upstream != nil {
			return nil
		}
		return echo(c, status)
	}
	return p, nil
}

func echo(c *plugin.Ctx, status int) *plugin.Reply {
	line := c.Request.Method + " " + c.Request.Target + " " + c.Request.Proto.String()
	if accept, _ := c.Header("Accept"); accept == "application/json" {
		line = string(liquid.AppendJSON(nil, map[string]any{"request": line}))
	}
	return plugin.Text(status, line+"\n")
}
