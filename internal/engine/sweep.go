package engine

import (
	"slices"
	"time"

	"weir/internal/monotonic"
)

// sweep sets the clock, and looks once a second at connections whose upstream
// makes them wait: a client that has left ends the request, so that nothing is
// computed for nobody. This replaces a watching goroutine or read per request. Of
// other protocols than HTTP/1.1, which sets deadlines, it ends what takes too long.
// Who waits for room has a client that waits, so that is looked for at every tick.
func (e *Engine) sweep() {
	t := time.NewTicker(tick)
	defer t.Stop()
	var ended evictions
	for last := time.Now(); ; {
		select {
		case <-e.stop:
			return
		case now := <-t.C:
			e.clock.set(now)
			if now.Sub(last) >= time.Second {
				last = now
				e.endOverdue(now)
			}
			if e.door.crowded() {
				e.makeRoom(&ended)
			}
		}
	}
}

// endOverdue ends requests whose client has left, and what takes other protocols too
// long.
func (e *Engine) endOverdue(now time.Time) {
	var others []*Connection
	e.each(func(c member) {
		switch c := c.(type) {
		case *conn:
			c.abortIfGone(now)
		case *Connection:
			others = append(others, c)
		}
	})
	for _, c := range others {
		c.sweep(now)
	}
}

// evictions counts the connections that were ended to make room.
type evictions struct {
	n    int // since they were told
	told monotonic.Seldom
}

// makeRoom ends connections that have been without a request since the last call,
// first those that have never had one, at most a quarter of all at a time. They are
// what a client can miss: it has to expect that they end at any time. (nginx ends its
// idle ones as soon as it has room for no more.)
func (e *Engine) makeRoom(v *evictions) {
	var silent, used []*conn
	all := 0
	e.each(func(m member) {
		all++
		c, ok := m.(*conn)
		switch {
		case !ok || !c.tire():
		case c.used.Load():
			used = append(used, c)
		default:
			silent = append(silent, c)
		}
	})
	ended := slices.Concat(silent, used)
	ended = ended[:min(len(ended), all/4+1)]
	for _, c := range ended {
		c.endWaiting()
	}
	if v.n += len(ended); v.n > 0 && v.told.Ready(time.Now()) {
		e.Log.Warn("no room for more connections: idle ones are ended", "open", all, "ended", v.n)
		v.n = 0
	}
}
