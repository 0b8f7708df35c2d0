package engine

import (
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
)

// tick is how often the coarse clock is set.
const tick = 100 * time.Millisecond

// A clock knows the time within a tick without asking the system, which is good
// enough for deadlines of seconds, and the Date header's value.
type clock struct {
	at   atomic.Int64 // monotonic
	day  int64        // Unix seconds of date; of the goroutine that sets the clock
	date atomic.Pointer[string]
}

// httpTime is IMF-fixdate (RFC 9110 §5.6.7).
const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

func (c *clock) set(now time.Time) {
	c.at.Store(monotonic.Of(now))
	if day := now.Unix(); c.day != day || c.date.Load() == nil {
		s := now.UTC().Format(httpTime)
		c.day = day
		c.date.Store(&s)
	}
}

// Date is the time as in a Date header.
func (c *clock) Date() string { return *c.date.Load() }

// coarseFrom is the least timeout that is measured with the coarse clock: a
// tenth of it, the slack of a deadline, is several ticks.
const coarseFrom = 5 * time.Second

// For is the time to count a timeout of d from.
func (c *clock) For(d time.Duration) time.Time {
	if d < coarseFrom {
		return time.Now()
	}
	return monotonic.Time(c.at.Load())
}
