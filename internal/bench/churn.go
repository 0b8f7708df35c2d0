package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/bench/load"
)

// An op is one write of the churn: an object created or deleted.
type op struct {
	at     time.Duration // into the churn phases, laid end to end
	create bool
	kind   kind
	index  int
}

// schedule spreads creates and deletes evenly over total, each on its own, and
// deals them to the kinds in turn. New objects follow the bulk-loaded ones in
// number; deleted are the last of those, which no load is sent to.
func schedule(pops []population, creates, deletes int, total time.Duration) []op {
	ops := make([]op, 0, creates+deletes)
	for j := range creates {
		p := pops[j%len(pops)]
		ops = append(ops, op{at: spread(j, creates, total), create: true, kind: p.kind, index: p.count + j/len(pops)})
	}
	for j := range deletes {
		p := pops[j%len(pops)]
		ops = append(ops, op{at: spread(j, deletes, total), kind: p.kind, index: p.count - 1 - j/len(pops)})
	}
	slices.SortStableFunc(ops, func(a, b op) int { return int(a.at - b.at) })
	return ops
}

// spread is the middle of the j-th of n equal parts of total.
func spread(j, n int, total time.Duration) time.Duration {
	return time.Duration((float64(j) + 0.5) / float64(n) * float64(total))
}

// opStats are the figures of all creates, or of all deletes, of one phase.
type opStats struct {
	Called  int            // sent to the Admin API
	Acked   int            // answered with success
	Failure string         // the first answer that was not a success
	Latency load.Histogram // of the successful calls; a service or upstream takes two calls

	// First counts the acknowledged writes that the first request after the
	// acknowledgement saw; Wrong is answers that did not yet show the write;
	// Never is writes that no request showed within the timeout.
	First, Wrong, Never int
	// Until is from the acknowledgement to the first right answer.
	Until load.Histogram
}

// A writer creates and removes objects: the Admin API, or the store.
type writer interface {
	create(ctx context.Context, docs []document) error
	remove(ctx context.Context, docs []document) error
}

// A churner writes and asks the data plane after each acknowledgement whether the
// write is in force.
type churner struct {
	writes  writer
	pause   time.Duration // between the acknowledgement and the first request
	idle    int           // above 0: the writes mean nothing; one of so many objects is asked for
	dial    dialer
	origin  origin
	timeout time.Duration

	mu    sync.Mutex
	stats map[int]*[2]opStats // by phase: creates, deletes
}

// window is a churn phase in real time.
type window struct {
	phase  int
	start  time.Time
	length time.Duration
}

// locate turns a moment of the churn into a phase and a time.
func locate(windows []window, at time.Duration) (phase int, when time.Time) {
	for _, w := range windows {
		if at < w.length || w == windows[len(windows)-1] {
			return w.phase, w.start.Add(at)
		}
		at -= w.length
	}
	return 0, time.Time{}
}

// run performs ops at their times, at most concurrency at once; an op whose
// turn comes while all are busy waits.
func (c *churner) run(ctx context.Context, ops []op, windows []window, concurrency int) {
	type task struct {
		op
		phase int
	}
	tasks := make(chan task)
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			probe := &load.Client{Dial: c.dial}
			defer probe.Close()
			for t := range tasks {
				c.perform(ctx, probe, t.op, t.phase)
			}
		})
	}
	defer wg.Wait()
	defer close(tasks)
	for _, o := range ops {
		phase, when := locate(windows, o.at)
		if !sleepUntil(ctx, when) {
			return
		}
		select {
		case tasks <- task{o, phase}:
		case <-ctx.Done():
			return
		}
	}
}

func (c *churner) perform(ctx context.Context, probe *load.Client, o op, phase int) {
	docs := o.kind.documents(c.origin, o.index)
	want, call := o.kind.gone, c.writes.remove
	if o.create {
		want, call = 200, c.writes.create
	}
	asked := o.index
	if c.idle > 0 {
		want, asked = 200, o.index%c.idle
	}
	start := time.Now()
	err := call(ctx, docs)
	acked := time.Now()
	if ctx.Err() != nil {
		return
	}
	c.count(phase, o.create, func(s *opStats) {
		s.Called++
		if err == nil {
			s.Acked++
			s.Latency.Record(acked.Sub(start))
		} else if s.Failure == "" {
			s.Failure = err.Error()
		}
	})
	if err != nil || !sleepUntil(ctx, acked.Add(c.pause)) {
		return
	}
	wrong, right := c.until(ctx, probe, []byte(o.kind.request(c.origin, asked)), want)
	c.count(phase, o.create, func(s *opStats) {
		s.Wrong += wrong
		switch {
		case !right:
			s.Never++
			return
		case wrong == 0:
			s.First++
		}
		s.Until.Record(time.Since(acked))
	})
}

// until repeats a request until its status is want, and counts the others.
func (c *churner) until(ctx context.Context, probe *load.Client, request []byte, want int) (wrong int, right bool) {
	deadline := time.Now().Add(c.timeout)
	pause := time.Millisecond
	for {
		status, err := probe.Ask(ctx, request, max(time.Until(deadline), time.Millisecond))
		if err == nil && status == want {
			return wrong, true
		}
		wrong++
		if !sleepUntil(ctx, time.Now().Add(pause)) || time.Now().After(deadline) {
			return wrong, false
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func (c *churner) count(phase int, create bool, f func(*opStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	both := c.stats[phase]
	if both == nil {
		both = &[2]opStats{}
		c.stats[phase] = both
	}
	if create {
		f(&both[0])
	} else {
		f(&both[1])
	}
}

// of copies the figures of a phase.
func (c *churner) of(phase int) (creates, deletes opStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if both := c.stats[phase]; both != nil {
		return both[0], both[1]
	}
	return opStats{}, opStats{}
}

// sleepUntil is false if ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
