package load

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Config describes an open-loop load: requests are due at a constant rate
// whatever becomes of the earlier ones.
type Config struct {
	// Dial opens a connection to the server.
	Dial func(context.Context) (net.Conn, error)

	// Request is the bytes of request number n (from 0). It is called once per
	// attempt, from several goroutines.
	Request func(n int) []byte

	Rate    float64       // requests per second
	Conns   int           // keep-alive connections, each with one request at a time
	Timeout time.Duration // from the intended send time to the end of the response

	// Start is the intended send time of request 0; Phases follow each other
	// from there without a gap.
	Start  time.Time
	Phases []time.Duration

	// Wait sleeps until a time; nil: in the kernel, on a thread of its own.
	Wait func(time.Time)
}

// A Generator sends the load of one Config, once.
type Generator struct {
	cfg    Config
	bounds []int // bounds[i] is the first request of phase i; the last is the number of all
	stop   atomic.Bool
	conns  []*conn
	wg     sync.WaitGroup

	mu     sync.Mutex
	idle   []*conn // connections that wait for a request, the warmest last
	due    int     // requests whose time has come
	taken  int     // requests that a connection has taken or that expired
	open   int     // requests due and not yet ended
	closed bool    // no further request will be taken
	quiet  quiet
	stats  []Stats
	ended  chan struct{} // closed when the last due request of a finished run ends
	last   bool          // everything that will be due is due
}

// New prepares a generator; nothing is opened before Run.
func New(cfg Config) *Generator {
	g := &Generator{cfg: cfg, ended: make(chan struct{}), stats: make([]Stats, len(cfg.Phases))}
	g.bounds = make([]int, 1, len(cfg.Phases)+1)
	var elapsed time.Duration
	for i, d := range cfg.Phases {
		elapsed += d
		g.bounds = append(g.bounds, int(elapsed.Seconds()*cfg.Rate+0.5))
		g.stats[i].Scheduled = g.bounds[i+1] - g.bounds[i]
	}
	return g
}

// Run sends every request of every phase, or until ctx ends, waits until each
// has been answered, failed or timed out, and closes all connections.
func (g *Generator) Run(ctx context.Context) {
	dialCtx, cancel := context.WithCancel(context.Background())
	defer g.wg.Wait()
	defer cancel()
	for range g.cfg.Conns {
		c := &conn{g: g, slot: none}
		g.conns = append(g.conns, c)
		g.wg.Go(func() { c.run(dialCtx) })
	}
	unwatch := context.AfterFunc(ctx, func() { g.stop.Store(true) })
	defer unwatch()
	g.dispatch()
	<-g.ended
	g.shutdown()
}

// dispatch makes each request due at its time and hands it to an idle
// connection, writing it right here: no wake-up of another goroutine stands
// between the intended and the actual send.
func (g *Generator) dispatch() {
	wait, release := g.cfg.Wait, func() {}
	if wait == nil {
		wait, release = preciseWait()
	}
	defer release()
	for n := range g.bounds[len(g.bounds)-1] {
		at := g.intended(n)
		wait(at)
		if g.stop.Load() {
			break
		}
		late := time.Since(at)
		g.mu.Lock()
		g.phase(n).Late.Record(late)
		g.phase(n).Sent++
		g.due++
		g.open++
		g.quiet.request(at, g.phaseIndex(n))
		c, nc := g.takeIdle()
		g.mu.Unlock()
		if c != nil {
			c.write(nc, n)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = true
	if g.open == 0 {
		close(g.ended)
	}
}

// takeIdle gives the newest due request to an idle connection, if there is
// one; then no request is queued, so the newest is the only candidate.
func (g *Generator) takeIdle() (*conn, net.Conn) {
	if len(g.idle) == 0 {
		return nil, nil
	}
	c := g.idle[len(g.idle)-1]
	g.idle = g.idle[:len(g.idle)-1]
	c.take(g.taken)
	g.taken++
	return c, c.nc
}

// next is the oldest queued request, none if there is none. Requests that
// waited for a connection until their time was up are ended on the way.
func (g *Generator) next(now time.Time) int {
	for g.taken < g.due {
		n := g.taken
		g.taken++
		if now.Sub(g.intended(n)) < g.cfg.Timeout {
			return n
		}
		g.end(n, now, timedOut, 0)
	}
	return none
}

// end records what became of request n; g.mu is held.
func (g *Generator) end(n int, now time.Time, how outcome, status int) {
	s := g.phase(n)
	latency := now.Sub(g.intended(n))
	g.open--
	switch how {
	case answered:
		s.answered(status, latency)
		g.quiet.completion(now, g.open > 0, g.phaseIndex(g.due-1), g.stats)
	case timedOut:
		s.Timeouts++
		s.Latency.Record(latency)
	case failed:
		s.Errors++
	}
	if g.last && g.open == 0 {
		close(g.ended)
	}
}

func (g *Generator) shutdown() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.quiet.finish(time.Now(), g.stats)
	for _, c := range g.conns {
		if c.nc != nil {
			_ = c.nc.Close()
		}
	}
}

// Snapshot copies the figures of a phase as they stand now.
func (g *Generator) Snapshot(phase int) Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats[phase]
}

func (g *Generator) intended(n int) time.Time {
	return g.cfg.Start.Add(time.Duration(float64(n) / g.cfg.Rate * 1e9))
}

func (g *Generator) phase(n int) *Stats { return &g.stats[g.phaseIndex(n)] }

func (g *Generator) phaseIndex(n int) int {
	i := 0
	for n >= g.bounds[i+1] {
		i++
	}
	return i
}
