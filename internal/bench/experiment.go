package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"weir/internal/bench/load"
)

type dialer = func(context.Context) (net.Conn, error)

// A subject is the gateway under test.
type subject struct {
	name  string
	dial  dialer // its data plane
	admin *adminClient
	store store
	keys  writer                // of the store
	other writer                // of keys that no gateway looks at
	usage func() (usage, error) // nil: not known
}

// A phase is a part of the experiment's time.
type phase struct {
	name   string
	length time.Duration
	churn  bool
	pair   int // number of the pair from 1, 0 if none
}

// phases lays out the experiment: pairs of idle and churn, or one churn phase
// between a baseline and a cooldown.
func phases(o *churnOptions) []phase {
	if o.pairs == 0 {
		all := []phase{
			{name: "baseline", length: o.baseline},
			{name: "churn", length: o.duration, churn: true},
			{name: "cooldown", length: o.cooldown},
		}
		return slices.DeleteFunc(all, func(p phase) bool { return p.length <= 0 })
	}
	var all []phase
	for i := 1; i <= o.pairs; i++ {
		all = append(all,
			phase{name: fmt.Sprintf("idle %d", i), length: o.phase, pair: i},
			phase{name: fmt.Sprintf("churn %d", i), length: o.phase, churn: true, pair: i})
	}
	return all
}

// An experiment is one run of `weir bench churn` against a subject.
type experiment struct {
	opts     *churnOptions
	subject  *subject
	origin   origin
	pops     []population
	phases   []phase
	progress *progress
	wait     func(time.Time) // nil: see load.Config.Wait
}

// run loads the objects, sends the load and the churn, and reports.
func (e *experiment) run(ctx context.Context) (*Report, error) {
	report := newReport(e)
	began := time.Now()
	if err := e.bulkLoad(ctx); err != nil {
		return nil, err
	}
	report.Bulk.Seconds = time.Since(began).Seconds()
	if err := e.awaitAll(ctx); err != nil {
		return nil, err
	}
	report.Bulk.VisibleSeconds = time.Since(began).Seconds()
	e.progress.say("%d objects in force after %.2f s", report.Bulk.Objects, report.Bulk.VisibleSeconds)

	// A second for the connections to open and the gateway to settle.
	start := time.Now().Add(time.Second)
	gen := load.New(e.loadConfig(start))
	churn := e.churner()
	resources := make([]resources, len(e.phases))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	churned, idle := e.windows(start)
	wg.Go(func() { churn.run(ctx, e.schedule(churned), churned, e.opts.concurrency) })
	if e.opts.direct {
		wg.Go(func() { e.elsewhere().run(ctx, e.schedule(idle), idle, e.opts.concurrency) })
	}
	wg.Go(func() { e.monitor(ctx, start, gen, churn, resources) })
	gen.Run(ctx)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report.fill(e, gen, churn, resources)
	return report, nil
}

func (e *experiment) bulkLoad(ctx context.Context) error {
	docs := []document{consumerRoute(e.origin)}
	total := 0
	for _, p := range e.pops {
		for i := range p.count {
			docs = append(docs, p.documents(e.origin, i)...)
			if len(docs) >= perTxn {
				if err := e.subject.store.put(ctx, docs); err != nil {
					return err
				}
				docs = docs[:0]
			}
			if total++; total%10000 == 0 {
				e.progress.say("bulk load: %d objects", total)
			}
		}
	}
	return e.subject.store.put(ctx, docs)
}

// awaitAll waits until every object that the load asks for, and the last of
// each kind, is in force.
func (e *experiment) awaitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.ready)
	defer cancel()
	client := &load.Client{Dial: e.subject.dial}
	defer client.Close()
	for _, p := range e.pops {
		for i := range min(e.opts.keys, p.count) {
			if err := awaitOK(ctx, client, p.request(e.origin, i)); err != nil {
				return err
			}
		}
		if err := awaitOK(ctx, client, p.request(e.origin, p.count-1)); err != nil {
			return err
		}
	}
	return nil
}

// awaitOK repeats a request until it is answered with 200.
func awaitOK(ctx context.Context, client *load.Client, request string) error {
	for {
		status, err := client.Ask(ctx, []byte(request), 10*time.Second)
		if err == nil && status == 200 {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(time.Millisecond)) {
			return fmt.Errorf("no 200 in time for %.60q: last status %d, %v", request, status, err)
		}
	}
}

func (e *experiment) loadConfig(start time.Time) load.Config {
	var requests [][]byte
	for _, p := range e.pops {
		for i := range min(e.opts.keys, p.count) {
			requests = append(requests, []byte(p.request(e.origin, i)))
		}
	}
	rng := rand.New(rand.NewPCG(e.opts.seed, 0))
	rng.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	cfg := load.Config{
		Dial:    e.subject.dial,
		Request: func(n int) []byte { return requests[n%len(requests)] },
		Rate:    e.opts.rps, Conns: e.opts.conns, Timeout: e.opts.timeout,
		Start: start, Wait: e.wait,
	}
	for _, p := range e.phases {
		cfg.Phases = append(cfg.Phases, p.length)
	}
	return cfg
}

// seenAfter is when a write to the store is looked for first: at once it would be asked
// for in vain, which costs the machine more than idle phases do.
const seenAfter = 5 * time.Millisecond

func (e *experiment) churner() *churner {
	c := &churner{
		writes: e.subject.admin, dial: e.subject.dial, origin: e.origin,
		timeout: e.opts.timeout, stats: map[int]*[2]opStats{},
	}
	if e.opts.direct {
		c.writes, c.pause = e.subject.keys, seenAfter
	}
	return c
}

// elsewhere makes writes that are none of the gateway's, and as many requests: what
// etcd and the bench take from the machine is in the idle phases, too.
func (e *experiment) elsewhere() *churner {
	c := e.churner()
	c.writes, c.idle = e.subject.other, min(e.opts.keys, e.pops[0].count)
	return c
}

// windows are the phases with churn, and those without, from start on.
func (e *experiment) windows(start time.Time) (churned, idle []window) {
	for i, p := range e.phases {
		w := window{phase: i, start: start, length: p.length}
		if p.churn {
			churned = append(churned, w)
		} else {
			idle = append(idle, w)
		}
		start = start.Add(p.length)
	}
	return churned, idle
}

func (e *experiment) schedule(windows []window) []op {
	var total time.Duration
	for _, w := range windows {
		total += w.length
	}
	return schedule(e.pops, e.opts.creates, e.opts.deletes, total)
}

// resources is what the gateway used during a phase.
type resources struct {
	known bool
	cpu   time.Duration
	rss   int64 // at the end
	peak  int64 // the highest of samples a second apart
}

// monitor samples the gateway at the bounds of the phases and every second
// between, and shows progress.
func (e *experiment) monitor(ctx context.Context, start time.Time, gen *load.Generator, churn *churner, out []resources) {
	for i, p := range e.phases {
		if !sleepUntil(ctx, start) {
			return
		}
		end := start.Add(p.length)
		first, err := e.sample()
		r := resources{known: err == nil, peak: first.rss}
		for tick := start.Add(time.Second); ; tick = tick.Add(time.Second) {
			if tick.After(end) {
				tick = end
			}
			if !sleepUntil(ctx, tick) {
				return
			}
			now, err := e.sample()
			r.known = r.known && err == nil
			r.cpu, r.rss, r.peak = now.cpu-first.cpu, now.rss, max(r.peak, now.rss)
			e.progress.tick(p, tick.Sub(start), gen, churn, i, now.rss)
			if !tick.Before(end) {
				break
			}
		}
		out[i] = r
		start = end
	}
}

func (e *experiment) sample() (usage, error) {
	if e.subject.usage == nil {
		return usage{}, fmt.Errorf("no process")
	}
	return e.subject.usage()
}
