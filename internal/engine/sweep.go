package engine

import "time"

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
			}
		}
	}
}
