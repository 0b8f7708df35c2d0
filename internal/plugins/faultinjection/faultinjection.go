// Package faultinjection makes some requests fail or wait, to see how their
// clients take it.
package faultinjection

import (
	"encoding/json"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "fault-injection", Priority: 11000, Doc: "Delays or aborts a share of the requests."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	_     struct{} `schema:"minProps=1"`
	Abort *Abort   `json:"abort" doc:"Answer in place of the upstream. It comes after the delay."`
	Delay *Delay   `json:"delay" doc:"Let the request wait."`
}

// Abort is an answer.
type Abort struct {
	Status  int            `json:"http_status" schema:"required,min=200" doc:"Status of the answer."`
	Body    *string        `json:"body"        schema:"minLen=0" doc:"Body of the answer; variables are filled in. Without it the body is the gateway's page for the status."`
	Headers schema.Headers `json:"headers"     doc:"Headers of the answer; variables are filled in."`
	Share
}

// Delay is a wait.
type Delay struct {
	Duration float64 `json:"duration" schema:"required,min=0" doc:"Seconds to wait. The wait ends when the client leaves."`
	Share
}

// Share says which requests are concerned.
type Share struct {
	Percentage *int       `json:"percentage" schema:"min=0,max=100" doc:"How many of a hundred requests, at random; all if absent."`
	Vars       Conditions `json:"vars"       schema:"maxItems=20" doc:"Expressions of which one must hold."`
}

// Conditions are match expressions.
type Conditions []json.RawMessage

// JSONSchema implements schema.Describer.
func (Conditions) JSONSchema() []byte { return []byte(`{"type":"array","items":{"type":"array"}}`) }

// A fault is a compiled share.
type fault struct {
	percentage int // -1: all
	vars       []*expr.Expr
	always     bool // there are no conditions
	rand       func() float64
}

// gone answers a request whose client does not wait any more.
var gone = plugin.Text(499, "")

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	var abort *abort
	if c.Abort != nil {
		var err error
		if abort, err = compileAbort(c.Abort, env); err != nil {
			return plugin.Phases{}, err
		}
	}
	var delay *fault
	var wait time.Duration
	if c.Delay != nil {
		var err error
		if delay, err = compileShare(&c.Delay.Share, env); err != nil {
			return plugin.Phases{}, err
		}
		wait = schema.Seconds(c.Delay.Duration)
	}
	return plugin.Phases{Rewrite: func(r *plugin.Ctx) *plugin.Reply {
		aborts := abort != nil && abort.concerns(r)
		if delay != nil && delay.concerns(r) && delay.hits() && !r.Pause(wait) {
			return gone
		}
		if aborts && abort.hits() {
			return abort.reply(r)
		}
		return nil
	}}, nil
}

func compileShare(s *Share, env plugin.Env) (*fault, error) {
	f := &fault{percentage: -1, rand: env.Rand}
	if s.Percentage != nil {
		f.percentage = *s.Percentage
	}
	f.always = s.Vars == nil
	for _, raw := range s.Vars {
		e, err := expr.Compile(raw)
		if err != nil {
			return nil, err
		}
		f.vars = append(f.vars, e)
	}
	return f, nil
}

// concerns says whether one of the conditions holds.
func (f *fault) concerns(c *plugin.Ctx) bool {
	for _, e := range f.vars {
		if ok, err := e.Match(c); ok && err == nil {
			return true
		}
	}
	return f.always
}

// hits draws a lot.
func (f *fault) hits() bool {
	return f.percentage < 0 || f.rand()*100 < float64(f.percentage)
}

// An abort is a compiled answer.
type abort struct {
	*fault
	fixed   *plugin.Reply // nil: the body has variables
	status  int
	body    *expr.Template
	headers []header
}

type header struct {
	name  string
	value *expr.Template
}

func compileAbort(c *Abort, env plugin.Env) (*abort, error) {
	f, err := compileShare(&c.Share, env)
	if err != nil {
		return nil, err
	}
	a := &abort{fault: f, status: c.Status}
	for _, h := range c.Headers.Sorted() {
		value, err := expr.Parse(h[1])
		if err != nil {
			return nil, err
		}
		a.headers = append(a.headers, header{h[0], value})
	}
	if c.Body == nil {
		a.fixed = &plugin.Reply{Status: c.Status}
		return a, nil
	}
	if a.body, err = expr.Parse(*c.Body); err != nil {
		return nil, err
	}
	if a.body.Fixed() {
		a.fixed = plugin.Text(c.Status, *c.Body)
	}
	return a, nil
}

func (a *abort) reply(c *plugin.Ctx) *plugin.Reply {
	for i := range a.headers {
		c.SetReplyHeader(a.headers[i].name, a.headers[i].value.Value(c))
	}
	if a.fixed != nil {
		return a.fixed
	}
	return &plugin.Reply{Status: a.status, Body: a.body.Append([]byte{}, c)}
}
