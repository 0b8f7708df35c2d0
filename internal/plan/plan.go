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

	mark mark
}

// A mark is what a request asks of a step beside its function. It stands next to
// that: the Step lies elsewhere, and memory that only one consumer of many uses is
// seldom in a cache.
type mark struct {
	priority int
	place    uint8 // of the plugin in a Set
	prefer   bool  // PreferRoute
}

// A RequestStep is a step of Rewrite, Access, Content or BeforeProxy.
type RequestStep struct {
	*Step
	Run func(*plugin.Ctx) *plugin.Reply

	mark
}

// A ResponseStep is a step of Header or Log.
type ResponseStep struct {
	*Step
	Run func(*plugin.Ctx)

	mark
}

// A BodyStep opens a body filter.
type BodyStep struct {
	*Step
	Open func(*plugin.Ctx) plugin.BodyFilter

	mark
}

// A Plan is what a route does to a request. It is immutable; it may be shared
// by routes and outlives them while a request holds it.
//
// A consumer's plan is seldom in a cache. What a request asks of it stands first,
// and its first steps stand in it.
type Plan struct {
	set  Set   // of its plugins
	has  phase // the lists that are not empty
	refs atomic.Int32

	Access, Rewrite []RequestStep
	room            [3]RequestStep // of the two above, if that is enough

	Content, BeforeProxy []RequestStep
	Header, Log          []ResponseStep
	Body, Encode         []BodyStep

	steps  []*Step
	close  []func()
	origin *Plan // of a watched plan the one that it watches; nil: none
}

// A phase is a set of phases.
type phase uint8

const (
	rewrite phase = 1 << iota
	access
	content
	before
	header
	log
	body
	encode
)

// Has says whether the plan has any of the plugins of another.
func (p *Plan) Has(other *Plan) bool { return p.set.meets(&other.set) }

// Empty says that nothing runs.
func (p *Plan) Empty() bool { return p.set == Set{} }

// Steps are all plugin instances of p, in order of priority.
func (p *Plan) Steps() []*Step { return p.steps }

// Specs are the plugins of this build by name. Make it with NewSpecs.
type Specs map[string]Spec

// A Spec is a plugin and its place among all of them.
type Spec struct {
	plugin.Spec
	place uint8
}

// NewSpecs numbers the plugins.
func NewSpecs(all []plugin.Spec) Specs {
	m := Specs{}
	for i, s := range all {
		m[s.Name] = Spec{s, uint8(i)}
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

func (s *Set) add(place uint8) { s[place/64] |= 1 << (place % 64) }

func (s *Set) has(place uint8) bool { return s[place/64]>>(place%64)&1 != 0 }

func (s *Set) meets(t *Set) bool {
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
	p.settle(parts)
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
	place uint8
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
	phases, err := compileIn(pe, spec, env.open(spec.Spec, conf.Raw))
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
	return part{step, phases, spec.place}, nil
}

// An instance is what equal configurations of a Shared plugin have together.
type instance struct {
	phases plugin.Phases
	err    error
}

// Close implements the Keeper's wish.
func (i *instance) Close() {
	if i.phases.Close != nil {
		i.phases.Close()
	}
}

// compileIn compiles a configuration, or takes what an equal one has become.
func compileIn(env plugin.Env, spec Spec, raw []byte) (plugin.Phases, error) {
	if !spec.Shared() {
		return spec.Compile(raw, env)
	}
	i := plugin.Keep(env, "plan "+spec.Name+" "+string(env.Metadata)+" "+string(raw), func() *instance {
		env.Owner, env.Keep = "", nil
		i := new(instance)
		i.phases, i.err = spec.Compile(raw, env)
		return i
	})
	phases := i.phases
	phases.Close = nil // the last user's end is the instance's
	return phases, i.err
}

func closeAll(first, then func()) func() {
	if first == nil {
		return then
	}
	return func() { first(); then() }
}

// settle makes room for the lists that most plans have.
func (p *Plan) settle(parts []part) {
	accesses, rewrites := 0, 0
	for i := range parts {
		if parts[i].Access != nil {
			accesses++
		}
		if parts[i].Rewrite != nil {
			rewrites++
		}
	}
	if accesses+rewrites <= len(p.room) {
		p.Access, p.Rewrite = p.room[:0:accesses], p.room[accesses:accesses:accesses+rewrites]
	}
}

func (p *Plan) add(x part) {
	p.steps = append(p.steps, x.Step)
	p.set.add(x.place)
	p.close = append(p.close, x.Close)
	x.mark = mark{x.Priority, x.place, x.PreferRoute}
	m := x.mark
	request := func(list *[]RequestStep, of phase, run func(*plugin.Ctx) *plugin.Reply) {
		if run != nil {
			*list, p.has = append(*list, RequestStep{x.Step, run, m}), p.has|of
		}
	}
	response := func(list *[]ResponseStep, of phase, run func(*plugin.Ctx)) {
		if run != nil {
			*list, p.has = append(*list, ResponseStep{x.Step, run, m}), p.has|of
		}
	}
	filter := func(list *[]BodyStep, of phase, open func(*plugin.Ctx) plugin.BodyFilter) {
		if open != nil {
			*list, p.has = append(*list, BodyStep{x.Step, open, m}), p.has|of
		}
	}
	request(&p.Rewrite, rewrite, x.Rewrite)
	request(&p.Access, access, x.Access)
	request(&p.Content, content, x.Content)
	request(&p.BeforeProxy, before, x.BeforeProxy)
	response(&p.Header, header, x.Header)
	response(&p.Log, log, x.Log)
	filter(&p.Body, body, x.Body)
	filter(&p.Encode, encode, x.Encode)
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
