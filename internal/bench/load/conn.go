package load

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"time"
)

const (
	none = -1 // no request

	// redialDelay keeps a server that refuses connections from being hammered.
	redialDelay = 10 * time.Millisecond
)

// A conn is one keep-alive connection, dialled again whenever it ends. Its
// goroutine always reads, so that a connection closed while idle is replaced
// before a request is lost on it.
type conn struct {
	g *Generator

	// Guarded by g.mu.
	nc      net.Conn
	slot    int  // the request under way, or none
	retried bool // the request was sent before, on a connection that then ended
}

// run owns the connection until the generator shuts down.
func (c *conn) run(ctx context.Context) {
	var br *bufio.Reader
	for {
		nc, err := c.dial(ctx)
		if err != nil {
			if !c.dialFailed(ctx) {
				return
			}
			continue
		}
		if br == nil {
			br = bufio.NewReaderSize(nc, 4096)
		} else {
			br.Reset(nc)
		}
		alive := c.serve(nc, br)
		_ = nc.Close()
		if !alive {
			return
		}
	}
}

func (c *conn) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.g.cfg.Timeout)
	defer cancel()
	return c.g.cfg.Dial(ctx)
}

// dialFailed lets one request fail for want of a connection and waits a little.
// It is false when the generator has shut down.
func (c *conn) dialFailed(ctx context.Context) bool {
	g := c.g
	g.mu.Lock()
	now := time.Now()
	n := c.slot
	if n == none {
		n = g.next(now)
	}
	if n != none {
		g.end(n, now, failed, 0)
	}
	c.nc, c.slot, c.retried = nil, none, false
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(redialDelay):
		return true
	}
}

// serve sends and receives on nc until it ends. It is false when the generator
// has shut down.
func (c *conn) serve(nc net.Conn, br *bufio.Reader) bool {
	if !c.adopt(nc) {
		return false
	}
	for {
		if !c.awaitResponse(br) {
			return c.lost()
		}
		status, last, err := readResponse(br)
		if err != nil {
			return c.broken(err)
		}
		if !c.done(status, last) {
			return false
		}
		if last {
			return true
		}
	}
}

// adopt makes nc the connection and puts it to work: on the request that the
// previous connection lost, on a queued one, or among the idle.
func (c *conn) adopt(nc net.Conn) bool {
	g := c.g
	g.mu.Lock()
	c.nc = nc
	if g.closed {
		g.mu.Unlock()
		return false
	}
	if c.slot != none {
		c.take(c.slot)
	}
	c.proceed()
	return true
}

// proceed finds the connection its next request, if it has none, and sends it.
// It is called with g.mu held and releases it.
func (c *conn) proceed() {
	g := c.g
	if c.slot == none {
		if n := g.next(time.Now()); n != none {
			c.take(n)
		} else {
			g.idle = append(g.idle, c)
		}
	}
	n, nc := c.slot, c.nc
	g.mu.Unlock()
	if n != none {
		c.write(nc, n)
	}
}

// take makes n the request under way; g.mu is held.
func (c *conn) take(n int) {
	c.slot = n
	_ = c.nc.SetReadDeadline(c.g.intended(n).Add(c.g.cfg.Timeout))
}

// write sends request n. An error is left to the reading goroutine, which sees
// the end of the connection too.
func (c *conn) write(nc net.Conn, n int) {
	if _, err := nc.Write(c.g.cfg.Request(n)); err != nil {
		_ = nc.Close()
	}
}

// awaitResponse waits for the first byte of a response; false when the
// connection ended or the request's time is up. A deadline left over from the
// last request passes unnoticed while the connection is idle.
func (c *conn) awaitResponse(br *bufio.Reader) bool {
	for {
		_, err := br.Peek(1)
		if err == nil {
			return true
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.rearm() {
			return false
		}
	}
}

// rearm clears a deadline that belongs to no request; false if it was due.
func (c *conn) rearm() bool {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.slot == none {
		_ = c.nc.SetReadDeadline(time.Time{})
		return true
	}
	return time.Now().Before(c.g.intended(c.slot).Add(c.g.cfg.Timeout))
}

// lost handles a connection that ended, or whose request timed out, before a
// byte of a response: the request is tried once more on a new connection, as
// any HTTP client does with a kept-alive connection that turns out closed.
func (c *conn) lost() bool {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	c.leaveIdle()
	if c.slot == none {
		return !g.closed
	}
	now := time.Now()
	switch {
	case now.Sub(g.intended(c.slot)) >= g.cfg.Timeout:
		g.end(c.slot, now, timedOut, 0)
	case c.retried:
		g.end(c.slot, now, failed, 0)
	default:
		c.retried = true
		return !g.closed
	}
	c.slot, c.retried = none, false
	return !g.closed
}

// broken handles a response that stopped in the middle.
func (c *conn) broken(err error) bool {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	c.leaveIdle()
	if c.slot != none {
		how := failed
		if errors.Is(err, os.ErrDeadlineExceeded) {
			how = timedOut
		}
		g.end(c.slot, time.Now(), how, 0)
	}
	c.slot, c.retried = none, false
	return !g.closed
}

// done records a response; if the connection stays, its next request is sent.
// It is false when the generator has shut down.
func (c *conn) done(status int, last bool) bool {
	g := c.g
	g.mu.Lock()
	if c.slot == none {
		// A response nobody asked for: the connection cannot be trusted.
		_ = c.nc.Close()
		g.mu.Unlock()
		return true
	}
	g.end(c.slot, time.Now(), answered, status)
	c.slot, c.retried = none, false
	if last || g.closed {
		closed := g.closed
		g.mu.Unlock()
		return !closed
	}
	c.proceed()
	return true
}

// leaveIdle takes the connection off the idle list; g.mu is held.
func (c *conn) leaveIdle() {
	for i, o := range c.g.idle {
		if o == c {
			c.g.idle = append(c.g.idle[:i], c.g.idle[i+1:]...)
			return
		}
	}
}
