package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/internal/bench/load"
	"weir/internal/bench/tenant"
)

const (
	// changeDelay is how long after a refresh the products change: the portal does
	// not make documents while the gateway takes them.
	changeDelay = 2 * time.Second

	// settled is how long after a refresh what it has shown must be in force, and
	// how long its CPU time is looked for.
	settled = time.Second

	// sampling is how often the gateway's CPU clock is read.
	sampling = 100 * time.Millisecond
)

// A reloadPhase is one measurement.
type reloadPhase struct {
	round   int // from 1
	refresh bool
	changed int // products, before each refresh
}

func (p reloadPhase) name() string {
	if !p.refresh {
		return fmt.Sprintf("%d idle", p.round)
	}
	return fmt.Sprintf("%d changed %d", p.round, p.changed)
}

// A reader is a gateway that reads the bench's portal.
type reader struct {
	dial     dialer
	usage    func() (usage, error)                    // nil: not known
	cpu      func() (time.Duration, error)            // nil: not known
	compiled func(ctx context.Context) (int64, error) // products, since its start; nil: not known
	explain  func(error) error                        // adds what it said last; nil: nothing is known
	stop     func()
}

// A reloading is one run of `weir bench reload`.
type reloading struct {
	opts     *reloadOptions
	changes  []int
	catalog  *tenant.Catalog
	portal   *tenant.Portal
	backend  *tenant.Backend
	progress *progress
	wait     func(time.Time) // nil: see load.Config.Wait

	// start starts a gateway that refreshes or does not; it answers requests when
	// start returns.
	start func(ctx context.Context, refresh bool) (*reader, error)
}

// An outcome is what one phase has shown.
type outcome struct {
	reloadPhase
	stats         load.Stats
	before, after check
	used          resources
	refreshes     []tenant.Refresh // that began in the phase
	refused       int              // requests of the gateway that the portal answered with 503
	costs         []time.Duration  // CPU time of each refresh; nil: not known
	compiled      int64            // products; -1: not known
	calls         tenant.Calls     // of the backend
}

// run measures all phases of all rounds.
func (r *reloading) run(ctx context.Context) ([]outcome, error) {
	rng := rand.New(rand.NewPCG(r.opts.seed, 0))
	var all []outcome
	for round := range r.opts.pairs {
		phases := []reloadPhase{{round: round + 1}}
		for _, n := range r.changes {
			phases = append(phases, reloadPhase{round: round + 1, refresh: true, changed: n})
		}
		for _, i := range rng.Perm(len(phases)) {
			got, err := r.measure(ctx, phases[i])
			if err != nil {
				return nil, fmt.Errorf("phase %s: %w", phases[i].name(), err)
			}
			all = append(all, *got)
		}
	}
	return all, nil
}

// measure starts a gateway and sees what a phase does to it.
func (r *reloading) measure(ctx context.Context, p reloadPhase) (out *outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changing := r.change(ctx, p)
	defer changing()
	g, err := r.start(ctx, p.refresh)
	if err != nil {
		return nil, err
	}
	defer g.stop()
	defer func() {
		if err != nil && g.explain != nil {
			err = g.explain(err)
		}
	}()
	// A gateway that was there before refreshes whatever the phase.
	r.portal.Refuse(!p.refresh && r.opts.attach != "")
	defer r.portal.Refuse(false)
	out = &outcome{reloadPhase: p, compiled: -1}
	if out.before, err = r.ask(ctx, g); err != nil {
		return nil, err
	}
	if !sleepUntil(ctx, time.Now().Add(r.opts.settle)) {
		return nil, ctx.Err()
	}
	if err := r.load(ctx, g, out); err != nil {
		return nil, err
	}
	if out.after, err = r.ask(ctx, g); err != nil {
		return nil, err
	}
	r.progress.say("%s", out.line(r.opts.phase))
	return out, nil
}

// change has products change after every refresh, until the function that it
// returns is called.
func (r *reloading) change(ctx context.Context, p reloadPhase) func() {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	seen := make(chan struct{}, 1)
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-seen:
			}
			if p.changed > 0 && sleepUntil(ctx, time.Now().Add(changeDelay)) {
				r.catalog.Change(p.changed)
			}
		}
	})
	r.portal.OnRefresh(func(tenant.Refresh) {
		select {
		case seen <- struct{}{}:
		default:
		}
	})
	return func() {
		r.portal.OnRefresh(nil)
		cancel()
		wg.Wait()
	}
}

// load sends the phase's load and watches.
func (r *reloading) load(ctx context.Context, g *reader, out *outcome) error {
	before, refused := r.portal.Refreshes()
	calls := r.backend.Calls()
	var compiled int64
	if g.compiled != nil {
		var err error
		if compiled, err = g.compiled(ctx); err != nil {
			return err
		}
	}
	start := time.Now().Add(100 * time.Millisecond) // for the connections to open
	run, snapshot := r.loader(g, start)
	watch := &watcher{reader: g, phase: out.reloadPhase, start: start, length: r.opts.phase, progress: r.progress, snapshot: snapshot}
	var wg sync.WaitGroup
	wg.Go(func() { watch.run(ctx) })
	run(ctx)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	out.stats, out.used = snapshot(), watch.used
	all, refusals := r.portal.Refreshes()
	out.refreshes, out.refused = all[len(before):], refusals-refused
	out.costs = watch.costs(out.refreshes)
	out.calls = r.backend.Calls().Since(calls)
	if g.compiled != nil {
		n, err := g.compiled(ctx)
		if err != nil {
			return err
		}
		out.compiled = n - compiled
	}
	return nil
}

// loader is the load of a phase: its run, and its figures at any time.
func (r *reloading) loader(g *reader, start time.Time) (run func(context.Context), snapshot func() load.Stats) {
	order := rand.New(rand.NewPCG(r.opts.seed, 1)).Perm(r.catalog.Len())
	requests := make([][]byte, len(order))
	for i, n := range order {
		requests[i] = r.catalog.Request(n)
	}
	request := func(n int) []byte { return requests[n%len(requests)] }
	if len(r.opts.clients) > 0 {
		ramp := load.NewRamp(load.RampConfig{
			Dial: g.dial, Request: request, Steps: r.opts.clients, Length: r.opts.phase, Pause: r.opts.pause,
			Timeout: r.opts.timeout, Start: start,
		})
		return ramp.Run, ramp.Snapshot
	}
	gen := load.New(load.Config{
		Dial: g.dial, Request: request, Rate: r.opts.rps, Conns: r.opts.conns, Timeout: r.opts.timeout,
		Start: start, Phases: []time.Duration{r.opts.phase}, Wait: r.wait,
	})
	return gen.Run, func() load.Stats { return gen.Snapshot(0) }
}

// A watcher samples the gateway during a phase and shows progress.
type watcher struct {
	reader   *reader
	phase    reloadPhase
	start    time.Time
	length   time.Duration
	progress *progress
	snapshot func() load.Stats

	clock []reading
	used  resources
}

// A reading is one of the gateway's CPU clock.
type reading struct {
	at  time.Time
	cpu time.Duration
}

func (w *watcher) run(ctx context.Context) {
	if !sleepUntil(ctx, w.start) {
		return
	}
	first, known := w.sample()
	w.used = resources{known: known, peak: first.rss}
	second := w.start.Add(time.Second)
	end := w.start.Add(w.length)
	for at := w.start; ; at = at.Add(sampling) {
		if !sleepUntil(ctx, at) {
			return
		}
		if w.reader.cpu != nil {
			if cpu, err := w.reader.cpu(); err == nil {
				w.clock = append(w.clock, reading{time.Now(), cpu})
			}
		}
		if last := !at.Before(end); last || !at.Before(second) {
			now, known := w.sample()
			w.used.known = w.used.known && known
			w.used.cpu, w.used.rss, w.used.peak = now.cpu-first.cpu, now.rss, max(w.used.peak, now.rss)
			w.tick(at.Sub(w.start), last)
			if last {
				return
			}
			second = second.Add(time.Second)
		}
	}
}

func (w *watcher) sample() (u usage, known bool) {
	if w.reader.usage == nil {
		return u, false
	}
	u, err := w.reader.usage()
	return u, err == nil
}

func (w *watcher) tick(elapsed time.Duration, last bool) {
	s := w.snapshot()
	w.progress.update(elapsed, last, "%-14s %4.0f/%.0f s  sent %d  2xx %d  404 %d  timeouts %d  p99 %s  max %s  rss %d MiB",
		w.phase.name(), elapsed.Seconds(), w.length.Seconds(), s.Sent, s.Status[2], s.NotFound, s.Timeouts,
		brief(s.Latency.Quantile(.99)), brief(s.Latency.Max()), w.used.rss>>20)
}

// costs are the CPU times of refreshes: what was used around each, more than in an
// equal part of the time that belongs to none.
func (w *watcher) costs(refreshes []tenant.Refresh) []time.Duration {
	if len(w.clock) < 2 {
		return nil
	}
	whole := reading{w.clock[len(w.clock)-1].at, w.clock[len(w.clock)-1].cpu - w.clock[0].cpu}
	rest, used := whole.at.Sub(w.clock[0].at), whole.cpu
	type part struct{ time, cpu time.Duration }
	var parts []part
	for _, r := range refreshes {
		from, to := r.Began.Add(-sampling), r.Ended.Add(settled)
		if from.Before(w.clock[0].at) || to.After(whole.at) {
			continue // not seen whole
		}
		p := part{to.Sub(from), w.cpuAt(to) - w.cpuAt(from)}
		parts = append(parts, p)
		rest, used = rest-p.time, used-p.cpu
	}
	costs := []time.Duration{}
	for _, p := range parts {
		usual := 0.0
		if rest > 0 {
			usual = float64(used) / float64(rest) * float64(p.time)
		}
		costs = append(costs, p.cpu-time.Duration(usual))
	}
	return costs
}

// cpuAt is the clock at a time between two readings.
func (w *watcher) cpuAt(at time.Time) time.Duration {
	i, _ := slices.BinarySearchFunc(w.clock, at, func(r reading, at time.Time) int { return cmp.Compare(r.at.Sub(at), 0) })
	if i == 0 || i == len(w.clock) {
		return w.clock[min(i, len(w.clock)-1)].cpu
	}
	a, b := w.clock[i-1], w.clock[i]
	return a.cpu + time.Duration(float64(b.cpu-a.cpu)*float64(at.Sub(a.at))/float64(b.at.Sub(a.at)))
}
