package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"weir/internal/plugin"
)

// A Stream is what a stream route does to a session. It is immutable and outlives
// its route while a session holds it.
type Stream struct {
	preread, before []streamRequest
	log             []streamLog

	close []func()
	refs  atomic.Int32
}

type streamRequest func(*plugin.StreamCtx) *plugin.Reply

type streamLog func(*plugin.StreamCtx)

// StreamSpecs are the plugins of stream routes by name.
type StreamSpecs map[string]plugin.StreamSpec

// A streamPart is one compiled plugin configuration.
type streamPart struct {
	priority int
	plugin.Stream
}

// CompileStream is Compile for a stream route.
func CompileStream(specs StreamSpecs, confs []Conf, env Env) (*Stream, error) {
	p := new(Stream)
	p.refs.Store(1)
	var parts []streamPart
	var faults []error
	for _, conf := range confs {
		spec, known := specs[conf.Plugin]
		if !known {
			faults = append(faults, &Fault{Conf: conf, Unknown: true})
			continue
		}
		part, runs, err := compileStream(spec, conf, env)
		switch {
		case err != nil:
			faults = append(faults, &Fault{Conf: conf, Err: err})
		case runs:
			parts = append(parts, part)
		}
	}
	slices.SortStableFunc(parts, func(a, b streamPart) int { return cmp.Compare(b.priority, a.priority) })
	for _, part := range parts {
		p.add(part)
	}
	if faults != nil {
		p.Release()
		return nil, errors.Join(faults...)
	}
	return p, nil
}

func compileStream(spec plugin.StreamSpec, conf Conf, env Env) (p streamPart, runs bool, err error) {
	raw := env.open(spec.Secrets(), conf.Raw)
	refused := func(err error) error {
		return &plugin.StreamConfigError{ConfigError: plugin.ConfigError{Plugin: conf.Plugin, Err: err}}
	}
	meta, err := metaOf(conf.Raw)
	if err != nil {
		if words := spec.ConfigSchema().Check(raw); words != nil {
			err = words
		}
		return p, false, refused(err)
	}
	if meta.Disable {
		return p, false, nil
	}
	uses := env.Keep.Fork()
	phases, err := spec.Compile(raw, env.ofStream(spec, conf, uses))
	if err != nil {
		uses.Release()
		return p, false, err
	}
	phases.Close = closeAll(phases.Close, uses.Release)
	filter, err := filterOf(meta.Filter)
	if err != nil {
		phases.Close()
		return p, false, refused(err)
	}
	if filter != nil {
		phases.Preread = filter.stream(phases.Preread)
		phases.BeforeProxy = filter.stream(phases.BeforeProxy)
		phases.Log = filter.streamLog(phases.Log)
	}
	p = streamPart{priority: spec.Priority, Stream: phases}
	if meta.Priority != nil {
		p.priority = *meta.Priority
	}
	return p, true, nil
}

// ofStream is the environment of one plugin of a stream route.
func (e Env) ofStream(s plugin.StreamSpec, conf Conf, uses *plugin.Uses) plugin.Env {
	p := e.Env
	p.Owner, p.Keep, p.Attr = conf.Owner, uses, e.Attr[s.Name]
	if e.Metadata != nil && s.MetadataSchema() != nil {
		p.Metadata = e.Metadata(s.Name)
	}
	p.Plugin = e.Specs.meta
	p.Compile = func(name string, nested json.RawMessage) (plugin.Phases, error) {
		return plugin.Phases{}, &Fault{Conf: Conf{Plugin: name, Owner: conf.Owner, Raw: nested}, Unknown: true}
	}
	return p
}

func (f *filter) stream(run streamRequest) streamRequest {
	if run == nil {
		return nil
	}
	return func(c *plugin.StreamCtx) *plugin.Reply {
		if !f.passes(&c.Ctx) {
			return nil
		}
		return run(c)
	}
}

func (f *filter) streamLog(run streamLog) streamLog {
	if run == nil {
		return nil
	}
	return func(c *plugin.StreamCtx) {
		if f.passes(&c.Ctx) {
			run(c)
		}
	}
}

func (p *Stream) add(x streamPart) {
	p.close = append(p.close, x.Close)
	if x.Preread != nil {
		p.preread = append(p.preread, x.Preread)
	}
	if x.BeforeProxy != nil {
		p.before = append(p.before, x.BeforeProxy)
	}
	if x.Log != nil {
		p.log = append(p.log, x.Log)
	}
}

// Preread runs the Preread phase; a Reply ends the session.
func (p *Stream) Preread(c *plugin.StreamCtx) *plugin.Reply { return runStream(p.preread, c) }

// Before runs the BeforeProxy phase.
func (p *Stream) Before(c *plugin.StreamCtx) *plugin.Reply { return runStream(p.before, c) }

func runStream(steps []streamRequest, c *plugin.StreamCtx) *plugin.Reply {
	for _, run := range steps {
		if reply := run(c); reply != nil {
			return reply
		}
	}
	return nil
}

// Log runs the Log phase.
func (p *Stream) Log(c *plugin.StreamCtx) {
	for _, run := range p.log {
		run(c)
	}
}

// Acquire adds a reference. The caller must hold a pin or a reference.
func (p *Stream) Acquire() { p.refs.Add(1) }

// Release drops a reference; with the last one the plugins are closed.
func (p *Stream) Release() {
	if p.refs.Add(-1) > 0 {
		return
	}
	for _, f := range p.close {
		f()
	}
}
