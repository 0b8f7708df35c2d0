package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/model"
	"weir/internal/upstream"
)

// Config is what a Registry needs.
type Config struct {
	Kind    string // discovery_type
	Backend Backend
	Env     Env

	// Default stands in for a service without nodes; nil: nothing does.
	Default *Node

	Dump *Dump // nil: none is kept

	// Shown is the configuration as the Control API shows it, without secrets.
	Shown json.RawMessage

	// Show returns what the Control API tells of the services in use; nil: the
	// configuration and the services by key.
	Show func(config json.RawMessage, services map[string][]Node) any
}

// A Registry follows the services in use that one kind of registry has.
type Registry struct {
	kind     string
	backend  Backend
	env      Env
	fallback *Node
	dump     *Dump
	shown    json.RawMessage
	show     func(json.RawMessage, map[string][]Node) any
	ready    atomic.Bool // there was an answer

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	feeds    map[string]*Feed
	restored map[string]dumpedNodes // from the dump, not yet in use
	started  bool
	closed   bool
}

// New makes a Registry that asks for nothing until Start.
func New(c Config) *Registry {
	r := &Registry{
		kind: c.Kind, backend: c.Backend, env: c.Env.Filled(), fallback: c.Default, dump: c.Dump,
		shown: c.Shown, show: c.Show, feeds: map[string]*Feed{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Kind is the discovery_type.
func (r *Registry) Kind() string { return r.kind }

// Start begins to follow the services in use, now and later.
func (r *Registry) Start() {
	var restored map[string]dumpedNodes
	if r.dump != nil {
		restored = r.dump.load(r.env.Log)
		r.running.Go(func() { r.dump.run(r.ctx, r.Services, r.env.Log) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	r.restored = restored
	for _, f := range r.feeds {
		r.follow(f)
	}
}

// Close ends everything. Services that are still held keep their last nodes.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	for _, f := range r.feeds {
		if f.linger != nil {
			f.linger.Stop()
		}
	}
	r.mu.Unlock()
	r.cancel()
	r.running.Wait()
	r.backend.Close()
}

// Discovery is upstream.Discovery: it follows the service that m names. A name that cannot be
// one is no error of the upstream: its requests fail.
func (r *Registry) Discovery(m *model.Upstream) (upstream.Service, error) {
	target, err := r.backend.Target(m)
	if err != nil {
		return refused{fmt.Errorf("discovery %s: %w", r.kind, err)}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.feeds[target.Key]
	if f == nil {
		f = &Feed{registry: r, target: target, tried: make(chan struct{})}
		r.feeds[target.Key] = f
		if r.started {
			r.follow(f)
		}
	}
	f.users++
	return use{f}, nil
}

// follow starts to follow a service. r.mu is held.
func (r *Registry) follow(f *Feed) {
	if nodes, ok := r.restored[f.target.Key]; ok {
		f.restore(nodes)
		delete(r.restored, f.target.Key)
	}
	if r.closed {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	f.cancel = cancel
	r.running.Go(func() { f.target.Follow(ctx, f) })
}

// release ends one use.
func (r *Registry) release(f *Feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.users--; f.users > 0 || r.closed {
		return
	}
	if !r.started {
		delete(r.feeds, f.target.Key)
		return
	}
	if f.linger == nil {
		f.linger = time.AfterFunc(r.env.Linger, func() { r.forget(f) })
	} else {
		f.linger.Reset(r.env.Linger)
	}
}

// forget drops a service that nobody has come back to.
func (r *Registry) forget(f *Feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.users > 0 || r.closed || r.feeds[f.target.Key] != f {
		return
	}
	delete(r.feeds, f.target.Key)
	if f.cancel != nil {
		f.cancel()
	}
}

// answered notes that the registry has said something about a service.
func (r *Registry) answered(changed bool) {
	r.ready.Store(true)
	if changed && r.dump != nil {
		r.dump.changed()
	}
}

// Ready reports whether the registry has ever answered, if it was asked.
func (r *Registry) Ready() bool {
	if r.ready.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.feeds) == 0
}

// Services are those in use of which something is known, by key.
func (r *Registry) Services() map[string][]Node {
	r.mu.Lock()
	feeds := slices.Collect(maps.Values(r.feeds))
	r.mu.Unlock()
	services := make(map[string][]Node, len(feeds))
	for _, f := range feeds {
		if k := f.known.Load(); k != nil && len(k.nodes) > 0 {
			services[f.target.Key] = k.nodes
		}
	}
	return services
}

// refused stands for a service that cannot be asked for.
type refused struct{ err error }

func (refused) Known(time.Time) *upstream.NodeList { return nil }

func (r refused) Nodes(context.Context, time.Time) (*upstream.NodeList, error) { return nil, r.err }

func (refused) Close() {}
