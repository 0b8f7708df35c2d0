// Package nginxfilters hides headers from what acts on them before the upstream.
package nginxfilters

import (
	"strings"

	"weir/internal/plugin"
)

// Policy is nginx_filters.
var Policy = plugin.Define(
	plugin.Meta{Name: "nginx_filters", Before: []string{"apicast"}, Doc: "Removes headers of requests, for good or until the access phase."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Headers []Header `json:"headers" doc:"What is removed."`
}

// A Header is one that is removed.
type Header struct {
	Name   string `json:"name" schema:"required" doc:"Name of the header."`
	Append bool   `json:"append" doc:"Whether the upstream gets it nevertheless."`
}

// kept are the fields that come back.
type kept [][2]string

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	if len(c.Headers) == 0 {
		return p, nil
	}
	own := new(Config) // marks what is kept
	p.Rewrite = func(x *plugin.Ctx) *plugin.Reply {
		if k := hide(x, c.Headers); k != nil {
			x.SetState(own, k)
		}
		return nil
	}
	for _, h := range c.Headers {
		if h.Append {
			p.Access = func(x *plugin.Ctx) *plugin.Reply {
				k, _ := x.State(own).(kept)
				for _, f := range k {
					x.Request.Header.Add(f[0], f[1])
				}
				return nil
			}
		}
	}
	return p, nil
}

func hide(c *plugin.Ctx, headers []Header) (k kept) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Dropped {
			continue
		}
		for _, h := range headers {
			if !strings.EqualFold(h.Name, f.Name) {
				continue
			}
			if f.Dropped = true; h.Append {
				k = append(k, [2]string{f.Name, f.Value})
			}
			break
		}
	}
	return k
}
