package engine

import "time"

// sweep looks once a second at connections whose upstream makes them wait: a
// client that has left ends the request, so that nothing is computed for nobody.
// This replaces a watching goroutine or read per request.
func (e *Engine) sweep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-tick.C:
			e.date.set(now)
			e.each(func(c *conn) { c.abortIfGone(now) })
		}
	}
}
