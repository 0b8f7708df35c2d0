// Package plan turns the plugins of one route into flat lists of functions, by
// phase and in the order in which they run. A request pays for what stands in
// these lists and for nothing else.
package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/plugin"
)

// A Conf is one plugin's configuration and the object that carries it.
type Conf struct {
	Plugin string
	Owner  string // "routes/1", "services/7"
	Raw    json.RawMessage
}

// A Step names one plugin instance of a plan.
type Step struct {
	Owner    string
	Plugin   string
	Priority int // higher runs first; _meta.priority wins over the plugin's own
	Guard    bool
}

// A RequestStep is a step of Rewrite, Access or BeforeProxy.
type RequestStep struct {
	*Step
	Run func(*plugin.Ctx) *plugin.Reply
}

// A ResponseStep is a step of Header or Log.
type ResponseStep struct {
	*Step
	Run func(*plugin.Ctx)
}

// A BodyStep opens a body filter.
type BodyStep struct {
	*Step
	Open func(*plugin.Ctx) plugin.BodyFilter
}

// A Plan is what a route does to a request. It is immutable; it may be shared
// by routes and outlives them while a request holds it.
type Plan struct {
	Rewrite, Access, BeforeProxy []RequestStep
	Header, Log                  []ResponseStep
	Body                         []BodyStep

	steps []*Step
	close []func()
	refs  atomic.Int32
}

// Steps are all plugin instances of p, in order of priority.
func (p *Plan) Steps() []*Step { return p.steps }

// Specs are the plugins of this build by name.
type Specs map[string]plugin.Spec

// A Fault is one plugin configuration that does not compile.
type Fault struct {
	Conf
	// Unknown says that this build has no such plugin; Err is then nil.
	Unknown bool
	Err     error
}

// Error is the text for the Admin API's client.
func (f *Fault) Error() string {
	if f.Unknown {
		return fmt.Sprintf("unknown plugin [%s]", f.Plugin)
	}
	return f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// Compile builds the plan of the given configurations. Its error joins a *Fault
// for every configuration that does not compile, not only the first; nothing is
// then left open. The plan has one reference, the caller's.
func Compile(specs Specs, confs []Conf, env plugin.Env) (*Plan, error) {
	p := new(Plan)
	p.refs.Store(1)
	var parts []part
	var faults []error
	for _, conf := range confs {
		spec, known := specs[conf.Plugin]
		if !known {
			faults = append(faults, &Fault{Conf: conf, Unknown: true})
			continue
		}
		part, err := compile(spec, conf, env)
		if err != nil {
			faults = append(faults, &Fault{Conf: conf, Err: err})
			continue
		}
		if part.Step != nil {
			parts = append(parts, part)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, part := range parts {
		p.add(part)
	}
	if faults != nil {
		p.Release()
		return nil, errors.Join(faults...)
	}
	return p, nil
}

// A part is one compiled plugin configuration; its Step is nil if it is disabled.
type part struct {
	*Step
	plugin.Phases
}

func compile(spec plugin.Spec, conf Conf, env plugin.Env) (part, error) {
	meta, err := metaOf(conf.Raw)
	if err != nil {
		return part{}, fmt.Errorf("failed to check the configuration of plugin %s err: %w", conf.Plugin, err)
	}
	if meta.Disable {
		return part{}, nil
	}
	uses := env.Keep.Fork()
	env.Owner, env.Raw, env.Keep = conf.Owner, conf.Raw, uses
	phases, err := spec.Compile(conf.Raw, env)
	if err != nil {
		uses.Release()
		return part{}, err
	}
	phases.Close = closeAll(phases.Close, uses.Release)
	step := &Step{Owner: conf.Owner, Plugin: conf.Plugin, Priority: spec.Priority, Guard: spec.Guard}
	if meta.Priority != nil {
		step.Priority = *meta.Priority
	}
	if meta.ErrorResponse != nil {
		phases.Rewrite = answerWith(meta.ErrorResponse, phases.Rewrite)
		phases.Access = answerWith(meta.ErrorResponse, phases.Access)
		phases.BeforeProxy = answerWith(meta.ErrorResponse, phases.BeforeProxy)
	}
	return part{step, phases}, nil
}

func closeAll(first, then func()) func() {
	if first == nil {
		return then
	}
	return func() { first(); then() }
}

func (p *Plan) add(x part) {
	p.steps = append(p.steps, x.Step)
	p.close = append(p.close, x.Close)
	p.Rewrite = addRequest(p.Rewrite, x.Step, x.Rewrite)
	p.Access = addRequest(p.Access, x.Step, x.Access)
	p.BeforeProxy = addRequest(p.BeforeProxy, x.Step, x.BeforeProxy)
	p.Header = addResponse(p.Header, x.Step, x.Header)
	p.Log = addResponse(p.Log, x.Step, x.Log)
	if x.Body != nil {
		p.Body = append(p.Body, BodyStep{x.Step, x.Body})
	}
}

func addRequest(to []RequestStep, s *Step, run func(*plugin.Ctx) *plugin.Reply) []RequestStep {
	if run == nil {
		return to
	}
	return append(to, RequestStep{s, run})
}

func addResponse(to []ResponseStep, s *Step, run func(*plugin.Ctx)) []ResponseStep {
	if run == nil {
		return to
	}
	return append(to, ResponseStep{s, run})
}

// Request runs the phases before the upstream is chosen; a Reply answers, nil
// means the request goes on.
func (p *Plan) Request(c *plugin.Ctx) *plugin.Reply {
	if r := run(p.Rewrite, c); r != nil {
		return r
	}
	return run(p.Access, c)
}

// Before runs the BeforeProxy phase.
func (p *Plan) Before(c *plugin.Ctx) *plugin.Reply { return run(p.BeforeProxy, c) }

func run(steps []RequestStep, c *plugin.Ctx) *plugin.Reply {
	for i := range steps {
		if r := steps[i].Run(c); r != nil {
			return r
		}
	}
	return nil
}

// Respond runs the Header phase.
func (p *Plan) Respond(c *plugin.Ctx) {
	for i := range p.Header {
		p.Header[i].Run(c)
	}
}

// Done runs the Log phase.
func (p *Plan) Done(c *plugin.Ctx) {
	for i := range p.Log {
		p.Log[i].Run(c)
	}
}

// Acquire adds a reference, for a stream that outlives its request's pin. The
// caller must hold a pin or a reference.
func (p *Plan) Acquire() { p.refs.Add(1) }

// Release drops a reference; with the last one the plugins are closed.
func (p *Plan) Release() {
	if p.refs.Add(-1) > 0 {
		return
	}
	for _, f := range p.close {
		f()
	}
}
