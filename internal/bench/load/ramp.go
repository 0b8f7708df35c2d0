package load

import (
	"context"
	"net"
	"sync"
	"time"
)

// A RampConfig describes clients that come one by one; each sends a request, waits
// for its answer, pauses and begins again. The load of a server that stalls falls:
// unlike a Generator, a Ramp shows what its clients see.
type RampConfig struct {
	// Dial opens a connection to the server.
	Dial func(context.Context) (net.Conn, error)

	// Request is the bytes of request number n (from 0), from several goroutines.
	Request func(n int) []byte

	// Steps are numbers of clients. The load has an equal part for each: in the
	// first half of it the number rises from the previous one (0 at first), in the
	// second it stays.
	Steps   []int
	Length  time.Duration // of all parts
	Pause   time.Duration // of a client between an answer and its next request
	Timeout time.Duration // from sending a request to the end of its answer
	Start   time.Time
}

// A Ramp sends the load of one RampConfig, once.
type Ramp struct {
	cfg RampConfig

	mu    sync.Mutex
	next  int // number of the next request
	open  int // requests under way
	stats [1]Stats
	quiet quiet
}

// NewRamp prepares a load; nothing is opened before Run.
func NewRamp(cfg RampConfig) *Ramp { return &Ramp{cfg: cfg} }

// Run lets the clients come and work until the end of the load, or of ctx, and
// waits until what they have sent is answered.
func (r *Ramp) Run(ctx context.Context) {
	end := r.cfg.Start.Add(r.cfg.Length)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var wg sync.WaitGroup
	before := 0
	part := r.cfg.Length / time.Duration(max(len(r.cfg.Steps), 1))
	for i, clients := range r.cfg.Steps {
		began := r.cfg.Start.Add(time.Duration(i) * part)
		for n := range clients - before {
			at := began.Add(part / 2 * time.Duration(n) / time.Duration(clients-before))
			wg.Go(func() { r.client(ctx, at) })
		}
		before = max(before, clients)
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet.finish(time.Now(), r.stats[:])
}

// Snapshot copies the figures as they stand now. Latencies count from sending.
func (r *Ramp) Snapshot() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats[0]
}

// client works from at on until ctx ends.
func (r *Ramp) client(ctx context.Context, at time.Time) {
	c := &Client{Dial: r.cfg.Dial}
	defer c.Close()
	for pause(ctx, at) {
		began := time.Now()
		n := r.begin(began)
		// What is under way when the load ends is still waited for.
		status, err := c.Ask(context.WithoutCancel(ctx), r.cfg.Request(n), r.cfg.Timeout)
		now := time.Now()
		r.end(began, now, status, err)
		at = now.Add(r.cfg.Pause)
	}
}

// pause waits until a time; false if ctx ended before.
func pause(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (r *Ramp) begin(now time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.next
	r.next++
	r.open++
	r.stats[0].Scheduled++
	r.stats[0].Sent++
	r.quiet.request(now, 0)
	return n
}

func (r *Ramp) end(began, now time.Time, status int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.stats[0]
	r.open--
	switch latency := now.Sub(began); {
	case err == nil:
		s.answered(status, latency)
		r.quiet.completion(now, r.open > 0, 0, r.stats[:])
	case latency >= r.cfg.Timeout:
		s.Timeouts++
		s.Latency.Record(latency)
	default:
		s.Errors++
	}
}
