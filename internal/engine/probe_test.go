package engine

import (
	"sync/atomic"

	"weir/internal/plugin"
)

// probeConf makes the test plugin answer, panic, or filter.
type probeConf struct {
	Answer int    `json:"answer" schema:"default=0" doc:"Status to answer with."`
	Panic  string `json:"panic" doc:"Phase to panic in."`
	Route  string `json:"route" doc:"Value of X-Route in answers."`
	Upper  bool   `json:"upper" schema:"default=false" doc:"Turn bodies to upper case."`
}

// probed counts the log phases that ran.
var probed atomic.Int64

var probePlugin = plugin.Define(
	plugin.Meta{Name: "probe", Priority: 1, Doc: "Test plugin."},
	func(c *probeConf, _ plugin.Env) (plugin.Phases, error) {
		boom := func(phase string) {
			if c.Panic == phase {
				panic(phase)
			}
		}
		reply := plugin.Text(c.Answer, "probe")
		p := plugin.Phases{
			Access: func(*plugin.Ctx) *plugin.Reply {
				boom("access")
				if c.Answer != 0 {
					return reply
				}
				return nil
			},
			Header: func(x *plugin.Ctx) {
				boom("header")
				x.Response.Header.Set("X-Probe", "1")
				x.Response.Header.Set("X-Route", c.Route)
			},
			Log: func(*plugin.Ctx) { probed.Add(1); boom("log") },
		}
		if c.Upper {
			p.Body = func(*plugin.Ctx) plugin.BodyFilter { return upper{} }
		}
		return p, nil
	},
)

type upper struct{}

func (upper) Write(p []byte, _ bool) []byte {
	out := make([]byte, len(p))
	for i, c := range p {
		if 'a' <= c && c <= 'z' {
			c -= 32
		}
		out[i] = c
	}
	return out
}
