package health

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a Checker uses of the outside.
type Config struct {
	Name string // of the upstream, for the log

	// Refresh, if not nil, is called before nodes are asked; it may call Set.
	Refresh func(context.Context)

	// TLS returns what type https connects with: root certificates and the
	// client's own. nil, or nothing returned: the system's, and none.
	TLS func() *tls.Config

	// Dial connects; nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Log *slog.Logger // nil: none
}

// A Checker checks the nodes of one upstream from Start until Close.
type Checker struct {
	cfg    Config
	checks atomic.Pointer[Checks]
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	loop   sync.WaitGroup

	mu      sync.Mutex
	targets []*Target
	byAddr  map[Address]*Target
}

// New makes a Checker without targets.
func New(cfg Config, checks *Checks) *Checker {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Checker{cfg: cfg, wake: make(chan struct{}, 1), byAddr: map[Address]*Target{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.checks.Store(checks)
	return c
}

// Start begins to check: all targets at once, and then at their intervals. It is
// called once.
func (c *Checker) Start() { c.loop.Go(func() { c.run(c.ctx) }) }

// Close ends the checks, also those under way, and waits for that.
func (c *Checker) Close() {
	c.cancel()
	c.loop.Wait()
}

// Change replaces how is checked. What is thought of the targets stays.
func (c *Checker) Change(checks *Checks) {
	c.checks.Store(checks)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Set replaces what is checked and returns the targets in the order of the
// addresses. Those that were there keep their status and counters; those that
// are not any more are never asked again.
func (c *Checker) Set(addrs []Address) []*Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	byAddr := make(map[Address]*Target, len(addrs))
	list, unique := make([]*Target, len(addrs)), make([]*Target, 0, len(addrs))
	for i, a := range addrs {
		t := byAddr[a]
		if t == nil {
			if t = c.byAddr[a]; t == nil {
				t = &Target{Address: a, checker: c}
			}
			byAddr[a] = t
			unique = append(unique, t)
		}
		list[i] = t
	}
	for a, t := range c.byAddr {
		if byAddr[a] == nil {
			t.gone.Store(true)
		}
	}
	c.targets, c.byAddr = unique, byAddr
	return list
}

// Nodes tells what is thought of the targets.
func (c *Checker) Nodes() []Node {
	c.mu.Lock()
	targets := c.targets
	c.mu.Unlock()
	nodes := make([]Node, len(targets))
	for i, t := range targets {
		nodes[i] = t.report()
	}
	return nodes
}

// run asks the healthy targets at one interval and the others at another.
func (c *Checker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var healthy, unhealthy time.Time // when they were asked last
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		every := c.checks.Load().Active.Interval
		now := time.Now()
		h, u := now.Sub(healthy) >= every.Healthy, now.Sub(unhealthy) >= every.Unhealthy
		if h {
			healthy = now
		}
		if u {
			unhealthy = now
		}
		if h || u {
			if c.cfg.Refresh != nil {
				c.cfg.Refresh(ctx)
			}
			c.askAll(ctx, h, u)
		}
		timer.Reset(max(0, min(time.Until(healthy.Add(every.Healthy)), time.Until(unhealthy.Add(every.Unhealthy)))))
	}
}

// askAll asks the targets of one kind or both, some at the same time, and waits
// for all answers.
func (c *Checker) askAll(ctx context.Context, healthy, unhealthy bool) {
	checks := c.checks.Load()
	c.mu.Lock()
	due := make([]*Target, 0, len(c.targets))
	for _, t := range c.targets {
		if t.Healthy() && healthy || !t.Healthy() && unhealthy {
			due = append(due, t)
		}
	}
	c.mu.Unlock()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(checks.Active.Concurrency, len(due)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(due) && ctx.Err() == nil; i = next.Add(1) - 1 {
				c.ask(ctx, due[i], checks)
			}
		})
	}
	wg.Wait()
}
