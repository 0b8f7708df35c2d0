package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"weir/internal/bench/load"
)

// An updated gateway is one that `weir bench updates` measures.
type updated struct {
	opts   *updatesOptions
	m      *managed
	store  *etcdStore
	e      *experiment
	http   *http.Client
	rng    *rand.Rand
	inline int // routes with an upstream of their own
	ups    int // upstreams, each with a route
	n      int // updates so far
}

// withSize measures with one in part of everything.
func (o *updatesOptions) withSize(ctx context.Context, f *figureOptions, p *progress, r *UpdatesReport, part int) error {
	weir, err := binaryPath(f.weir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := load.ServeOrigin(ln)
	defer server.Close()
	m, err := newManaged(dir, weir, o.etcdPath)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.start(); err != nil {
		return err
	}
	store, err := openStore([]string{m.storeURL()}, "/apisix")
	if err != nil {
		return err
	}
	defer store.close()
	u := &updated{
		opts: o, m: m, store: store, http: &http.Client{Timeout: requestTimeout},
		rng: rand.New(rand.NewPCG(o.seed, 0)), inline: (o.routes - o.upstreams) / part, ups: o.upstreams / part,
	}
	defer u.http.CloseIdleConnections()
	if err := u.fill(ctx, f.ready, origin{addr: server.Addr().String(), seed: o.seed}, p); err != nil {
		return m.proc.explain(err)
	}
	if err := u.measure(ctx, r, p, part == 1 && o.phase > 0); err != nil {
		return m.proc.explain(err)
	}
	return nil
}

// fill loads the configuration and waits until it is in force.
func (u *updated) fill(ctx context.Context, ready time.Duration, at origin, p *progress) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	admin := newAdminClient(u.m.adminURL(), u.m.key)
	defer admin.http.CloseIdleConnections()
	if err := u.m.ready(ctx, u.store, admin); err != nil {
		return err
	}
	u.e = &experiment{
		opts:     &churnOptions{keys: min(300, u.ups), rps: u.opts.rps, conns: u.opts.conns, timeout: 5 * time.Second, ready: ready, seed: u.opts.seed},
		subject:  &subject{dial: tcpDialer(u.m.dataAddr()), store: u.store},
		origin:   at,
		pops:     []population{{kindOf("upstreams"), u.ups}},
		progress: p,
	}
	if u.inline > 0 {
		u.e.pops = append(u.e.pops, population{kindOf("routes"), u.inline})
	}
	if err := u.e.bulkLoad(ctx); err != nil {
		return err
	}
	if err := u.e.awaitAll(ctx); err != nil {
		return err
	}
	p.say("%d routes and %d upstreams are in force", u.inline+u.ups, u.ups)
	_, err := u.burst(ctx, u.opts.updates) // what is made once is made now
	return err
}

// measure fills in what the configuration's updates cost.
func (u *updated) measure(ctx context.Context, r *UpdatesReport, p *progress, loaded bool) error {
	sizes := []int{u.opts.updates / 2, u.opts.updates}
	costs := map[int][]UpdateCost{}
	for range u.opts.rounds {
		for _, n := range sizes {
			c, err := u.burst(ctx, n)
			if err != nil {
				return err
			}
			costs[n] = append(costs[n], c)
		}
	}
	for _, n := range sizes {
		c := medians(costs[n])
		c.Routes, c.Upstreams, c.Updates = u.inline+u.ups, u.ups, n
		r.Costs = append(r.Costs, c)
		p.say("%d updates: CPU %.1f ms, applying %.1f ms", n, c.CPUMS, c.ApplyMS)
	}
	if !loaded {
		return nil
	}
	var err error
	r.Load, err = u.underLoad(ctx)
	return err
}

func medians(all []UpdateCost) UpdateCost {
	of := func(f func(UpdateCost) float64) float64 {
		var values []float64
		for _, c := range all {
			values = append(values, f(c))
		}
		return median(values)
	}
	return UpdateCost{
		CPUMS:    of(func(c UpdateCost) float64 { return c.CPUMS }),
		ApplyMS:  of(func(c UpdateCost) float64 { return c.ApplyMS }),
		MS:       of(func(c UpdateCost) float64 { return c.MS }),
		Compiled: of(func(c UpdateCost) float64 { return c.Compiled }),
	}
}

// progressOf is what the gateway says of itself (GET /v1/revision).
type progressOf struct {
	Applied  int64            `json:"applied"`
	Compiled map[string]int64 `json:"compiled"`
	Applying float64          `json:"apply_seconds"`
}

func (u *updated) progress(ctx context.Context) (p progressOf, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://127.0.0.1:%d/v1/revision", u.m.ports.control), nil)
	if err != nil {
		return p, err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	return p, json.NewDecoder(resp.Body).Decode(&p)
}

// settling is how long the gateway may go on with what a burst has left over.
const settling = 100 * time.Millisecond

// burst makes n updates and returns what they have cost.
func (u *updated) burst(ctx context.Context, n int) (c UpdateCost, err error) {
	pid := u.m.proc.cmd.Process.Pid
	before, err := u.progress(ctx)
	if err != nil {
		return c, err
	}
	cpu, err := cpuTime(pid)
	if err != nil {
		return c, err
	}
	began := time.Now()
	revision, err := u.write(ctx, u.store.prefix, n)
	if err != nil {
		return c, err
	}
	after := before
	for after.Applied < revision {
		if !sleepUntil(ctx, time.Now().Add(2*time.Millisecond)) {
			return c, ctx.Err()
		}
		if after, err = u.progress(ctx); err != nil {
			return c, err
		}
	}
	c.MS = ms(time.Since(began))
	if !sleepUntil(ctx, time.Now().Add(settling)) {
		return c, ctx.Err()
	}
	used, err := cpuTime(pid)
	c.CPUMS, c.ApplyMS = ms(used-cpu), (after.Applying-before.Applying)*1e3
	for kind, n := range after.Compiled {
		c.Compiled += float64(n - before.Compiled[kind])
	}
	return c, err
}

// write makes n updates below the prefix, each when the one before is stored, and
// returns the revision of the last.
func (u *updated) write(ctx context.Context, prefix string, n int) (revision int64, err error) {
	for range n {
		d := u.next()
		resp, err := u.store.client.Put(ctx, prefix+d.key, "{"+d.members+"}")
		if err != nil {
			return 0, err
		}
		revision = resp.Header.Revision
	}
	return revision, nil
}

// next is an object with a change: a route and an upstream in turn.
func (u *updated) next() document {
	u.n++
	var all []document
	switch i := u.rng.IntN(u.inline + u.ups); {
	case u.n%2 == 0:
		all = upstream(u.e.origin, u.rng.IntN(u.ups))[:1]
	case i < u.inline:
		all = route(u.e.origin, i)
	default:
		all = upstream(u.e.origin, i-u.inline)[1:]
	}
	d := all[0]
	d.members += fmt.Sprintf(`,"desc":"update %d"`, u.n)
	return d
}

// underLoad alternates phases without and with updates.
func (u *updated) underLoad(ctx context.Context) (*UpdateLoad, error) {
	start := time.Now().Add(time.Second)
	for range u.opts.rounds {
		u.e.phases = append(u.e.phases, phase{name: "idle", length: u.opts.phase}, phase{name: "updates", length: u.opts.phase, churn: true})
	}
	gen := load.New(u.e.loadConfig(start))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() {
		if failure = u.bursts(ctx, start); failure != nil {
			cancel()
		}
	})
	gen.Run(ctx)
	wg.Wait()
	if failure != nil {
		return nil, failure
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var idle, busy load.Histogram
	l := &UpdateLoad{RPS: u.opts.rps}
	for i, p := range u.e.phases {
		s := gen.Snapshot(i)
		l.Failed += uint64(s.Sent) - s.Status[2]
		if p.churn {
			busy.Add(&s.Latency)
		} else {
			idle.Add(&s.Latency)
		}
	}
	l.Idle, l.Updates, l.Sent = latency(&idle), latency(&busy), busy.Count()
	l.Over = busy.Over(idle.Quantile(.999))
	return l, nil
}

// bursts makes all updates at the start of each phase that is for them, and as
// many writes that are none at the start of the others.
func (u *updated) bursts(ctx context.Context, start time.Time) error {
	for _, p := range u.e.phases {
		end := start.Add(p.length)
		if !sleepUntil(ctx, start) {
			return ctx.Err()
		}
		var err error
		if p.churn {
			_, err = u.burst(ctx, u.opts.updates)
		} else {
			_, err = u.write(ctx, elsewhere, u.opts.updates)
		}
		if err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d updates took longer than a phase: --phase must be longer", u.opts.updates)
		}
		start = end
	}
	return nil
}
