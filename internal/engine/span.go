package engine

import (
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
	"weir/internal/wire"
)

// A span is one thing that takes time again and again, by the coarse clock.
type span struct {
	clock *clock
	since atomic.Int64 // monotonic; 0: not under way
}

func (s *span) begin() { s.since.Store(s.clock.at.Load()) }
func (s *span) end()   { s.since.Store(0) }

// overdue reports, once each time, that it takes longer than limit; 0: no limit.
func (s *span) overdue(now time.Time, limit time.Duration) bool {
	since := s.since.Load()
	return limit > 0 && since != 0 && monotonic.Of(now)-since > int64(limit) && s.since.CompareAndSwap(since, 0)
}

// timed is a Stream that takes the time of its writes.
type timed struct {
	stream
	took span
}

func (t *timed) WriteHead(r *wire.Response, body []byte, last bool) error {
	t.took.begin()
	defer t.took.end()
	return t.stream.WriteHead(r, body, last)
}

func (t *timed) Write(p []byte, last bool) error {
	t.took.begin()
	defer t.took.end()
	return t.stream.Write(p, last)
}

// A Cutter is a Stream whose client can be given up, from another goroutine.
type Cutter interface {
	CutRead()  // a read of the body returns os.ErrDeadlineExceeded
	CutWrite() // writing fails
}

// parting is how much longer than the time-out a connection without requests may
// stay: its protocol ends it in better ways, as a rule.
const parting = 5 * time.Second

// sweep gives up what takes too long: a client that does not send its body or
// does not take its answer, and one that has no request under way, which a
// protocol does not see as long as it has something to send.
func (c *Connection) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engine
	for _, x := range c.all {
		if x.cut == nil {
			continue
		}
		if x.reading.overdue(now, e.BodyTimeout) {
			x.cut.CutRead()
		}
		if x.timed.took.overdue(now, e.SendTimeout) {
			x.cut.CutWrite()
		}
	}
	if c.running == 0 && e.KeepaliveTimeout > 0 && now.Sub(c.since) > e.KeepaliveTimeout+parting {
		c.end()
	}
}
