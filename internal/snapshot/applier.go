package snapshot

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cow"
	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/router"
	"weir/internal/staple"
	"weir/internal/upstream"
)

// Config is what an Applier needs.
type Config struct {
	Plugins []plugin.Spec // of this build

	// StreamPlugins are those of stream routes.
	StreamPlugins []plugin.StreamSpec

	Router router.Kind

	// Enabled is config.yaml's choice of plugins. A list in the store (KindPlugins)
	// takes the place of its names.
	Enabled Selection

	// Strict makes an object that names a plugin that is not enabled a broken one,
	// as in APISIX's standalone files. Otherwise such a plugin is left out, as
	// APISIX does with objects from etcd, unless it is a guard.
	Strict bool

	// Products are what 3scale products are compiled with; without a Runtime there
	// are none.
	Products Products

	// TLSPorts are plugin.Env's.
	TLSPorts []int

	// Upstream is the environment of compiled upstreams; its Pools are used by
	// all of them.
	Upstream upstream.Env

	// TLS is what the handshakes of all certificates have in common; nil: TLS 1.2
	// and later.
	TLS *tls.Config

	// Reveal returns what a text refers to if it is a reference to a secret, else
	// the text; nil: references are not resolved.
	Reveal func(string) string

	// Open returns a plugin's configuration, or what a consumer holds for it,
	// with its secrets readable: decrypted, references resolved; nil: as stored.
	Open func(s plugin.Spec, raw []byte, credential bool) []byte

	// Version, ID and Connections are plugin.Env's.
	Version, ID string
	Connections func() plugin.Connections

	Meter *meter.Registry  // nil: one of its own
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none
}

// An Applier owns the current state. Apply is the only thing in the process
// that changes it.
type Applier struct {
	compiler // of the plugins that config.yaml enables
	cancel   context.CancelFunc

	applying sync.Mutex
	current  atomic.Pointer[Snapshot]
	users    users
	edits    edits // of the step that is applied

	compiled [model.KindCount]atomic.Int64
	modified [model.KindCount]atomic.Int64
	deltas   atomic.Int64
	changes  atomic.Int64
	spent    atomic.Int64 // nanoseconds
	took     *meter.Series

	certificates certificates

	waiting struct {
		mu   sync.Mutex
		list map[*waiter]struct{}
	}
	retiring retiring
	stop     chan struct{}
	closer   sync.WaitGroup
}

type waiter struct {
	revision int64
	done     chan struct{}
}

// New makes an applier whose state is empty, at revision 0. Close ends it.
func New(cfg Config) *Applier {
	if cfg.Connections == nil {
		cfg.Connections = func() plugin.Connections { return plugin.Connections{} }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Meter == nil {
		cfg.Meter = meter.New(0)
	}
	if cfg.Open == nil {
		cfg.Open = func(_ plugin.Spec, raw []byte, _ bool) []byte { return raw }
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Applier{
		compiler: compiler{config: cfg, specs: plan.NewSpecs(cfg.Plugins), keeper: new(plugin.Keeper), staples: staple.New(cfg.Log)},
		cancel:   cancel,
		users:    users{},
		stop:     make(chan struct{}),
	}
	a.took, _ = cfg.Meter.Vec(applyTime).With(nil) // the first of its registry
	a.config.Upstream.Certificate = a.certificate
	a.env = a.newEnv(ctx)
	a.env.Exists = func(object string) bool { return a.Current().exists(object) }
	a.env.Metadata = func(name string) json.RawMessage { return a.Current().metadata(name) }
	a.env.Proto = func(id string) (string, bool) { return protoContent(a.Current().documents[model.KindProto].Get(id)) }
	a.empty, _ = plan.Compile(nil, nil, a.env)
	a.all = a.specs
	a.allStreams = newStreamSpecs(cfg.StreamPlugins)
	a.policies = plan.NewSpecs(cfg.Products.Policies)
	a.choose(cfg.Enabled, &a.compiler)
	with := a.compiler
	a.waiting.list = map[*waiter]struct{}{}
	a.retiring.pins = map[*Pin]struct{}{}
	a.retiring.wake = make(chan struct{}, 1)
	a.current.Store(&Snapshot{
		seq:    1,
		router: router.New[*Route](cfg.Router),
		index:  map[string]*cow.Map[*record]{},
		with:   &with,
	})
	a.closer.Go(func() { a.retiring.run(a.stop) })
	return a
}

// Close closes every compiled object. No request may be running.
func (a *Applier) Close() {
	a.Apply(a.wipe())
	close(a.stop)
	a.closer.Wait()
	a.cancel()
	a.staples.Close()
	a.keeper.Close()
}

// wipe is the delta to a state in which nothing is compiled.
func (a *Applier) wipe() model.Delta {
	s := a.Current()
	d := model.Delta{Revision: s.Revision}
	for id := range s.routes.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindRoute, ID: id})
	}
	for id := range s.services.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindService, ID: id})
	}
	for id := range s.upstreams.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindUpstream, ID: id})
	}
	for id := range s.streams.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindStreamRoute, ID: id})
	}
	for id := range s.products.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindProduct, ID: id})
	}
	for id := range s.ssls.All() {
		d.Del = append(d.Del, model.Key{Kind: model.KindSSL, ID: id})
	}
	for id, e := range s.records[model.KindConsumer].All() {
		if e.plan() == nil {
			continue // nothing was compiled: taking a million of them apart is for nothing
		}
		d.Del = append(d.Del, model.Key{Kind: model.KindConsumer, ID: id})
	}
	for k := range model.KindCount {
		for id := range s.sets[k].All() {
			d.Del = append(d.Del, model.Key{Kind: k, ID: id})
		}
	}
	return d
}

// Current is the state that new requests see.
func (a *Applier) Current() *Snapshot { return a.current.Load() }

// Apply makes the state after d current. An object that does not compile keeps
// its last good form and carries the reason as its fault; the rest of d is
// applied.
func (a *Applier) Apply(d model.Delta) { a.apply(d, false) }

// apply makes the state after d current; same: at the revision it has.
func (a *Applier) apply(d model.Delta, same bool) {
	a.applying.Lock()
	defer a.applying.Unlock()
	start := a.config.Now()
	prev := a.Current()
	if same {
		d.Revision = prev.Revision
	}
	if len(d.Put) == 0 && len(d.Del) == 0 {
		a.publish(prev, prev.at(d.Revision), nil)
		return
	}
	n := a.begin(prev)
	n.putPlugins(d)
	for _, k := range d.Del {
		n.remove(k)
	}
	parts := n.readAhead(d.Put)
	for some := range slices.Chunk(d.Put, ahead) {
		said := <-parts
		for i, o := range some {
			var read *reading
			if said != nil {
				read = &said[i]
			}
			n.put(o, read)
			if m := &a.modified[o.Kind]; o.Modified > m.Load() {
				m.Store(o.Modified)
			}
		}
	}
	n.compileGlobal()
	n.compileRoutes()
	n.compileStreams()
	next := n.end(d.Revision)
	a.publish(prev, next, n.retired)
	a.note(d, a.config.Now().Sub(start))
}

// applyTime is how long steps take. Most are of one object.
var applyTime = meter.Desc{
	Name: "config_apply_seconds", Help: "Time that applying a step of the configuration took", Kind: meter.Histogram,
	Buckets: []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}, Unit: float64(time.Second),
}

// note counts a step that was applied.
func (a *Applier) note(d model.Delta, took time.Duration) {
	a.deltas.Add(1)
	a.changes.Add(int64(len(d.Put) + len(d.Del)))
	a.spent.Add(int64(took))
	if a.took != nil {
		a.took.Observe(int64(took))
	}
}

// at is s at another revision.
func (s *Snapshot) at(revision int64) *Snapshot {
	next := *s
	next.Revision = revision
	next.seq++
	return &next
}

func (a *Applier) publish(prev, next *Snapshot, retired []func()) {
	a.current.Store(next)
	a.retiring.add(prev.seq, retired)
	a.waiting.mu.Lock()
	defer a.waiting.mu.Unlock()
	for w := range a.waiting.list {
		if w.revision <= next.Revision {
			close(w.done)
			delete(a.waiting.list, w)
		}
	}
}

// Wait returns when the state has at least the given revision, or with ctx's
// error.
func (a *Applier) Wait(ctx context.Context, revision int64) error {
	w := &waiter{revision, make(chan struct{})}
	a.waiting.mu.Lock()
	if a.Current().Revision >= revision {
		a.waiting.mu.Unlock()
		return nil
	}
	a.waiting.list[w] = struct{}{}
	a.waiting.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		a.waiting.mu.Lock()
		delete(a.waiting.list, w)
		a.waiting.mu.Unlock()
		return ctx.Err()
	}
}

// Work is what applying has cost so far.
type Work struct {
	Deltas   int64            // steps
	Changes  int64            // objects that came or went in them
	Compiled map[string]int64 // objects compiled, by directory of their kind
	Modified map[string]int64 // highest revision of an object that came, likewise
	Spent    time.Duration
}

// Work returns the counters.
func (a *Applier) Work() Work {
	w := Work{
		Deltas: a.deltas.Load(), Changes: a.changes.Load(), Spent: time.Duration(a.spent.Load()),
		Compiled: map[string]int64{}, Modified: map[string]int64{},
	}
	for k := range model.KindCount {
		w.Modified[k.Dir()] = a.modified[k].Load()
		w.Compiled[k.Dir()] = a.compiled[k].Load()
	}
	return w
}
