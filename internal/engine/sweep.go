package engine

import (
	"slices"
	"time"
)

// sweep sets the clock, and looks once a second at connections whose upstream
// makes them wait: a client that has left ends the request, so that nothing is
// computed for nobody. This replaces a watching goroutine or read per request. Of
// other protocols than HTTP/1.1, which sets deadlines, it ends what takes too long.
func (e *Engine) sweep() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for last := time.Now(); ; {
		select {
		case <-e.stop:
			return
		case now := <-t.C:
			e.clock.set(now)
			if now.Sub(last) >= time.Second {
				last = now
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
				if e.door.crowded() {
					e.makeRoom()
				}
			}
		}
	}
}

// makeRoom ends connections that have been without a request since the last call,
// first those that have never had one, at most a quarter of all at a time. They are
// what a client can miss: it has to expect that they end at any time.
func (e *Engine) makeRoom() {
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
	if len(ended) > 0 {
		e.Log.Warn("no room for more connections: idle ones are ended", "open", all, "ended", len(ended))
	}
}
