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
	Owner       string
	Plugin      string
	Priority    int // higher runs first; _meta.priority wins over the plugin's own
	Guard       bool
	PreferRoute bool // not run from a global rule where the route has the plugin

	// Conf is the configuration as given.
	Conf json.RawMessage

	set Set // of this plugin alone
}

// A RequestStep is a step of Rewrite, Access, Content or BeforeProxy.
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
	Rewrite, Access, Content, BeforeProxy []RequestStep
	Header, Log                           []ResponseStep
	Body, Encode                          []BodyStep

	steps []*Step
	set   Set // of its plugins
	close []func()
	refs  atomic.Int32

	origin *Plan // of a watched plan the one that it watches; nil: none
}

// Has says whether the plan has any of the plugins of another.
func (p *Plan) Has(other *Plan) bool { return p.set.has(&other.set) }

// Empty says that nothing runs.
func (p *Plan) Empty() bool { return len(p.steps) == 0 }

// Steps are all plugin instances of p, in order of priority.
func (p *Plan) Steps() []*Step { return p.steps }

// Specs are the plugins of this build by name. Make it with NewSpecs.
type Specs map[string]Spec

// A Spec is a plugin and its place among all of them.
type Spec struct {
	plugin.Spec
	place int
}

// NewSpecs numbers the plugins.
func NewSpecs(all []plugin.Spec) Specs {
	m := Specs{}
	for i, s := range all {
		m[s.Name] = Spec{s, i}
	}
	return m
}

// meta is plugin.Env's Plugin.
func (s Specs) meta(name string) (plugin.Meta, bool) {
	spec, known := s[name]
	return spec.Meta, known
}

// A Set is a set of plugins, by their places.
type Set [4]uint64

func (s *Set) add(place int) { s[place/64&3] |= 1 << (place % 64) }

func (s *Set) has(t *Set) bool {
	return s[0]&t[0]|s[1]&t[1]|s[2]&t[2]|s[3]&t[3] != 0
}

func (s *Set) union(t *Set) (u Set) {
	for i := range s {
		u[i] = s[i] | t[i]
	}
	return u
}

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
func Compile(specs Specs, confs []Conf, env Env) (*Plan, error) {
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

func compile(spec Spec, conf Conf, env Env) (part, error) {
	meta, err := metaOf(conf.Raw)
	if err != nil {
		// What the schema refuses it says in the words of APISIX.
		if words := spec.ConfigSchema().Check(env.open(spec.Spec, conf.Raw)); words != nil {
			err = words
		}
		return part{}, &plugin.ConfigError{Plugin: conf.Plugin, Err: err}
	}
	if meta.Disable {
		return part{}, nil
	}
	pe := env.of(spec)
	uses := env.Keep.Fork()
	pe.Owner, pe.Keep = conf.Owner, uses
	phases, err := spec.Compile(env.open(spec.Spec, conf.Raw), pe)
	if err != nil {
		uses.Release()
		return part{}, err
	}
	phases.Close = closeAll(phases.Close, uses.Release)
	filter, err := filterOf(meta.Filter)
	if err != nil {
		phases.Close()
		return part{}, err
	}
	step := &Step{
		Owner: conf.Owner, Plugin: conf.Plugin, Priority: spec.Priority,
		Guard: spec.Guard, PreferRoute: spec.PreferRoute, Conf: conf.Raw,
	}
	step.set.add(spec.place)
	if meta.Priority != nil {
		step.Priority = *meta.Priority
	}
	if meta.ErrorResponse != nil {
		phases.Rewrite = answerWith(meta.ErrorResponse, phases.Rewrite)
		phases.Access = answerWith(meta.ErrorResponse, phases.Access)
		phases.Content = answerWith(meta.ErrorResponse, phases.Content)
		phases.BeforeProxy = answerWith(meta.ErrorResponse, phases.BeforeProxy)
	}
	if filter != nil {
		phases = filter.wrap(phases)
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
	p.set = p.set.union(&x.set)
	p.close = append(p.close, x.Close)
	p.Rewrite = addRequest(p.Rewrite, x.Step, x.Rewrite)
	p.Access = addRequest(p.Access, x.Step, x.Access)
	p.Content = addRequest(p.Content, x.Step, x.Content)
	p.BeforeProxy = addRequest(p.BeforeProxy, x.Step, x.BeforeProxy)
	p.Header = addResponse(p.Header, x.Step, x.Header)
	p.Log = addResponse(p.Log, x.Step, x.Log)
	p.Body = addBody(p.Body, x.Step, x.Body)
	p.Encode = addBody(p.Encode, x.Step, x.Encode)
}

func addBody(to []BodyStep, s *Step, open func(*plugin.Ctx) plugin.BodyFilter) []BodyStep {
	if open == nil {
		return to
	}
	return append(to, BodyStep{s, open})
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

// Acquire adds a reference, for a stream that outlives its request's pin. The
// caller must hold a pin or a reference.
func (p *Plan) Acquire() {
	if p.origin != nil {
		p = p.origin
	}
	p.refs.Add(1)
}

// Release drops a reference; with the last one the plugins are closed.
func (p *Plan) Release() {
	if p.origin != nil {
		p = p.origin
	}
	if p.refs.Add(-1) > 0 {
		return
	}
	for _, f := range p.close {
		f()
	}
}
