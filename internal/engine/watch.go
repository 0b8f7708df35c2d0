package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plan"
	"weir/internal/plugin"
)

// A Watch counts what requests do for as long as it lasts. While there is none,
// requests do nothing for it but see that.
type Watch struct {
	engine *Engine
	only   func(*plugin.Ctx) bool // nil: every request counts
	label  bool                   // samples of profiles tell the route

	plans  sync.Map // watched: the plan in its watched form
	routes sync.Map // id: context with the label
	steps  sync.Map // stepKey: *atomic.Int64
	kept   struct{ plans, steps atomic.Int64 }

	one    chan struct{}
	picked atomic.Pointer[exchange] // of a watch of one request
	over   atomic.Bool              // that request is

	requests, tries, answered atomic.Int64
	spent, upstream           atomic.Int64 // nanoseconds
	classes                   [6]atomic.Int64
}

type stepKey struct{ phase, plugin, owner string }

// There may be a million consumers with plans of their own. What is beyond these
// bounds is counted as that of others, and its watched form is made for each request.
const (
	watchedPlans = 4096
	watchedSteps = 4096
	others       = "(others)"
)

// watched is a plan whose calls each stand for so many.
type watched struct {
	plan   *plan.Plan
	weight int64
}

// A glance is what a connection's exchange remembers of a watch.
type glance struct {
	watch  *Watch // nil: nobody watches
	seen   int64  // requests since it began
	weight int64  // how many requests this one stands for; 0: it is not counted
}

// During a profile each connection's requests are counted exactly at first, then one
// in so many for all of them: what is counted is shared by all processors, and that
// would show in the profile.
const (
	countedFirst = 64
	countedOf    = 16
)

// look sees whether somebody watches, and how this request counts.
func (g *glance) look(w *Watch) {
	if g.watch != w {
		*g = glance{watch: w}
	}
	if w == nil {
		return
	}
	g.weight = 1
	if g.seen++; w.label && g.seen > countedFirst {
		if g.weight = 0; g.seen%countedOf == 0 {
			g.weight = countedOf
		}
	}
}

// counts says that this request is counted.
func (g *glance) counts() bool { return g.weight > 0 }

// ErrWatched: there is a watch already.
var ErrWatched = errors.New("another one is measuring; there is one at a time")

// Watch begins to count all requests, exactly unless label: samples of CPU profiles
// then tell the route of a request, under the label "route", and some requests of a
// busy connection count for others. Stop must follow.
func (e *Engine) Watch(label bool) (*Watch, error) {
	w := &Watch{engine: e, label: label}
	if !e.watch.CompareAndSwap(nil, w) {
		return nil, ErrWatched
	}
	return w, nil
}

// WatchOne counts the next request for which only holds, which sees its head and
// must not keep it. It returns when that is over or ctx ends.
func (e *Engine) WatchOne(ctx context.Context, only func(*plugin.Ctx) bool) (*Calls, error) {
	w := &Watch{engine: e, only: only, one: make(chan struct{})}
	if !e.watch.CompareAndSwap(nil, w) {
		return nil, ErrWatched
	}
	defer w.Stop()
	select {
	case <-w.one:
		return w.Calls(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stop ends the watch. Requests that have begun may still count.
func (w *Watch) Stop() { w.engine.watch.CompareAndSwap(w, nil) }

// Calls are what was counted.
type Calls struct {
	Requests int64         `json:"requests"`
	Statuses [6]int64      `json:"-"`
	Classes  []Class       `json:"statuses"`
	Spent    time.Duration `json:"spent_ns"`    // of all requests, from their heads to their ends
	Upstream time.Duration `json:"upstream_ns"` // of that waiting for upstreams' answers
	Tries    int64         `json:"upstream_tries"`
	Answered int64         `json:"upstream_answers"`
	Steps    []StepCalls   `json:"functions"`
}

// A Class is how many answers had a status from 100·Status on.
type Class struct {
	Status int   `json:"class"`
	Count  int64 `json:"count"`
}

// StepCalls is how often a function of a plan ran.
type StepCalls struct {
	Phase  string `json:"phase"`
	Plugin string `json:"plugin"`
	From   string `json:"from"`
	Count  int64  `json:"count"`
}

// Calls returns what was counted so far.
func (w *Watch) Calls() *Calls {
	c := &Calls{
		Requests: w.requests.Load(), Spent: time.Duration(w.spent.Load()), Upstream: time.Duration(w.upstream.Load()),
		Tries: w.tries.Load(), Answered: w.answered.Load(), Steps: []StepCalls{}, Classes: []Class{},
	}
	for i := range w.classes {
		if c.Statuses[i] = w.classes[i].Load(); c.Statuses[i] > 0 {
			c.Classes = append(c.Classes, Class{i, c.Statuses[i]})
		}
	}
	w.steps.Range(func(k, n any) bool {
		key := k.(stepKey)
		c.Steps = append(c.Steps, StepCalls{key.phase, key.plugin, key.owner, n.(*atomic.Int64).Load()})
		return true
	})
	c.Steps = slices.DeleteFunc(c.Steps, func(s StepCalls) bool { return s.Count == 0 })
	slices.SortFunc(c.Steps, func(a, b StepCalls) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.From, b.From))
	})
	return c
}

// observe puts a watch, if there is one, between the request and its plans.
func (x *exchange) observe() {
	w := x.glance.watch
	if w == nil {
		return
	}
	if w.only != nil && !w.picks(x) {
		x.glance = glance{}
		return
	}
	if x.glance.counts() {
		weight := x.glance.weight
		x.run.Wrap(func(p *plan.Plan) *plan.Plan { return w.wrap(p, weight) })
	}
	if w.label {
		pprof.SetGoroutineLabels(w.labels(x.routeID()))
	}
}

// picks says that x is the one request that the watch is for.
func (w *Watch) picks(x *exchange) bool {
	return !w.over.Load() && (w.picked.Load() == x || w.only(&x.ctx) && w.picked.CompareAndSwap(nil, x))
}

func (w *Watch) wrap(p *plan.Plan, weight int64) *plan.Plan {
	key := watched{p, weight}
	if known, ok := w.plans.Load(key); ok {
		return known.(*plan.Plan)
	}
	made := p.Watched(func(phase string, s *plan.Step) func() {
		count := w.counter(stepKey{phase, s.Plugin, s.Owner})
		return func() { count.Add(weight) }
	})
	if w.kept.plans.Load() >= watchedPlans {
		return made
	}
	first, known := w.plans.LoadOrStore(key, made)
	if !known {
		w.kept.plans.Add(1)
	}
	return first.(*plan.Plan)
}

func (w *Watch) counter(key stepKey) *atomic.Int64 {
	if n, ok := w.steps.Load(key); ok {
		return n.(*atomic.Int64)
	}
	if key.owner != others && w.kept.steps.Load() >= watchedSteps {
		key.owner = others
		return w.counter(key)
	}
	n, known := w.steps.LoadOrStore(key, new(atomic.Int64))
	if !known && key.owner != others {
		w.kept.steps.Add(1)
	}
	return n.(*atomic.Int64)
}

func (w *Watch) labels(route string) context.Context {
	if known, ok := w.routes.Load(route); ok {
		return known.(context.Context)
	}
	made, _ := w.routes.LoadOrStore(route, pprof.WithLabels(context.Background(), pprof.Labels("route", route)))
	return made.(context.Context)
}

// end counts a request that is over.
func (w *Watch) end(x *exchange) {
	if w.only != nil && (w.picked.Load() != x || w.over.Swap(true)) {
		return
	}
	if x.glance.counts() {
		w.count(x, x.glance.weight)
	}
	if w.label {
		pprof.SetGoroutineLabels(context.Background())
	}
	if w.one != nil {
		close(w.one)
	}
}

// count counts a request that stands for n.
func (w *Watch) count(x *exchange, n int64) {
	sent := &x.ctx.Sent
	w.requests.Add(n)
	if class := sent.Status / 100; 0 < class && class < len(w.classes) {
		w.classes[class].Add(n)
	}
	w.spent.Add(n * int64(sent.End.Sub(x.ctx.Start)))
	for i := range sent.Tries {
		w.tries.Add(n)
		w.upstream.Add(n * int64(sent.Tries[i].Header))
	}
	if sent.Source == plugin.FromUpstream {
		w.answered.Add(n)
	}
}
