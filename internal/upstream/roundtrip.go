package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"weir/internal/health"
	"weir/internal/wire"
)

// RoundTrip sends the request of c and returns when the head of the final
// response was read; a 101 counts as one. It tries other nodes as far as that
// is safe: never after a byte of a response, after a malformed one, or once more
// of the body was read than is kept to be sent again; and never when bytes of a
// request with a method that is not idempotent reached a node. Its error is an
// *Error, or what BeforeTry or Early returned. Finish must be called in any case.
func (u *Upstream) RoundTrip(c *Call) error {
	if err := c.begin(u); err != nil {
		return err
	}
	var last *Error
	for try := 0; ; try++ {
		n, err := c.choose(last)
		if err != nil {
			return err
		}
		c.Node = n.addr
		if c.BeforeTry != nil {
			if err := c.BeforeTry(try); err != nil {
				return err
			}
		}
		if err = c.try(n); err == nil || c.refused {
			return err
		}
		last = ours(err)
		if err := c.again(n, last); err != nil {
			return err
		}
	}
}

func (c *Call) begin(u *Upstream) error {
	c.up = u
	c.scheme = cmp.Or(c.Scheme, u.scheme)
	c.timeout = u.timeout
	if c.Timeout != nil {
		c.timeout = override(*c.Timeout, u.timeout)
	}
	c.attempts, c.tried, c.broken, c.refused, c.stopped = 0, c.tried[:0], false, false, false
	c.Response, c.end = nil, nil
	c.started = u.now()
	c.began = c.started
	c.upload.start(c.Body, c.Length, c.Trailer)
	switch {
	case c.upload.err != nil:
		return &Error{Kind: ClientBody, Err: c.upload.err}
	case !requests(c.scheme):
		return &Error{Kind: BadScheme, Err: fmt.Errorf("scheme %q: %w", c.scheme, ErrUnsupported)}
	}
	if u.kind == chashType && c.HashKey != nil {
		c.filter.key = hashKey(c.HashKey())
	}
	return c.findNodes()
}

// choose picks the node of the next try.
func (c *Call) choose(last *Error) (*node, error) {
	c.letGo()
	switch {
	case len(c.set.nodes) == 0:
		return nil, &Error{Kind: NoNodes}
	case len(c.set.nodes) > 1 && !c.up.balances():
		return nil, &Error{Kind: BadBalancer, Err: fmt.Errorf("invalid balancer type: %s", c.up.kind)}
	}
	if n := c.set.pick(c); n != nil {
		c.held = n.load
		if n.noPort && c.scheme != c.up.scheme {
			return nil, &Error{Kind: NoPort, Addr: n.addr}
		}
		return n, nil
	}
	switch {
	case last == nil:
		return nil, &Error{Kind: NoneLeft}
	case c.attempts == 0, c.retries() < 0:
		return nil, last
	}
	return nil, &Error{Kind: NoneLeft, Addr: last.Addr, Err: last}
}

// letGo says that the chosen node is not busy with c any more.
func (c *Call) letGo() {
	if c.held != nil {
		c.held.active.Add(-1)
		c.held = nil
	}
}

func (c *Call) retries() int {
	if c.Retries != nil {
		return *c.Retries
	}
	return c.up.retries
}

// again returns nil if there may be another try after err.
func (c *Call) again(n *node, err *Error) error {
	if err.Kind == NoNodes {
		// The node does not exist as long as its name does not resolve.
		c.Tries = c.Tries[:len(c.Tries)-1]
		c.tried = append(c.tried, n.index)
		if len(c.set.nodes) == 1 {
			return err
		}
		return nil
	}
	t := &c.Tries[len(c.Tries)-1]
	now := c.up.now()
	t.Total, t.Err = now.Sub(c.began), err
	c.blame(err)
	c.attempts++
	c.tried = append(c.tried, n.index)
	retries := c.retries()
	if retries < 0 {
		retries = len(c.set.nodes) - 1
	}
	switch {
	case !c.repeat || c.attempts > retries || !c.up.retriesOn(err.Kind):
		return err
	case c.up.retryTimeout > 0 && now.Sub(c.started) > c.up.retryTimeout:
		return &Error{Kind: RetryTimeout, Addr: err.Addr, Err: err}
	}
	return nil
}

// blame counts a failure of the node for its health.
func (c *Call) blame(err *Error) {
	switch err.Kind {
	case Timeout:
		c.checked().TimedOut()
	case Dial, Reset, Malformed:
		c.checked().Failed()
	}
}

// checked is the chosen address as passive checks see it; nil: they do not see
// the request. The one that starts the checks is not counted, as in APISIX,
// where they come a moment later.
func (c *Call) checked() *health.Target {
	if c.end == nil || !c.counts {
		return nil
	}
	return c.end.target.Load()
}

// try sends the request to n. A kept connection that turns out to be closed
// says nothing about n: the request is sent again on a new one.
func (c *Call) try(n *node) error {
	if c.attempts > 0 {
		c.began = c.up.now()
	}
	c.Tries = append(c.Tries, Try{Addr: n.addr, Scheme: c.scheme, Host: c.authority(n)})
	err := c.connect(n, c.up.keepalive.IdleTimeout > 0)
	if err == nil {
		err = c.exchange(n)
	}
	for i := 0; err != nil && c.unprocessed && i < maxUnprocessed && !(c.busy && i > 0); i++ {
		if err = c.connect(n, c.up.keepalive.IdleTimeout > 0); err == nil {
			err = c.exchange(n)
		}
	}
	if err != nil && c.reused && c.repeat && ours(err).Kind == Reset {
		if err = c.connect(n, false); err == nil {
			err = c.exchange(n)
		}
	}
	return err
}

// maxUnprocessed bounds how often a node is asked again within one try, because
// its connections were ending when a request was sent on them.
const maxUnprocessed = 8

// ours is an error of connect and exchange that does not come from a callback.
func ours(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}

// exchange sends the request and reads the head of the response. When it fails
// the connection is gone and c.repeat says whether the request may be sent
// again.
func (c *Call) exchange(n *node) error {
	if c.conn.stream != nil {
		return c.converse(n)
	}
	sendErr := c.send(n)
	err := sendErr
	if err == nil || stopped(err) {
		err = c.answer()
	}
	if err == nil && c.unwanted() {
		return c.decline()
	}
	if err == nil {
		c.answered()
		return nil
	}
	if sendErr != nil && c.conn.got == 0 {
		err = sendErr
	}
	return c.lose(err)
}

// answered notes the head of the final response.
func (c *Call) answered() {
	c.upload.settle()
	c.Response = &c.resp
	t := &c.Tries[len(c.Tries)-1]
	t.Status, t.Header = c.resp.Status, c.up.now().Sub(c.began)
}

// stopped reports whether a node refuses to read on. It may have answered
// before.
func stopped(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// lose closes the connection, on which err has happened before the final
// response, and returns the Call's error.
func (c *Call) lose(err error) error {
	conn := c.conn
	conn.shut()
	replayable := c.upload.detach()
	c.repeat = false
	if !c.refused {
		e := c.fault(err)
		c.repeat = replayable && conn.got == 0 && (e.Kind == Reset || e.Kind == Timeout) &&
			(conn.written == 0 || c.harmless())
		err = e
	}
	c.mu.Lock()
	c.conn = nil
	c.mu.Unlock()
	conn.close()
	return err
}

// maxEarly bounds the interim responses to one request.
const maxEarly = 100

// answer reads responses up to the final one.
func (c *Call) answer() error {
	// Whoever else is ready to run goes first: most responses are there by then,
	// which saves a read that finds nothing, a wait and a wake-up.
	runtime.Gosched()
	for range maxEarly {
		if err := c.conn.r.ReadResponse(&c.resp, c.method()); err != nil {
			return err
		}
		if c.resp.Status >= 200 || c.resp.Status == 101 {
			return nil
		}
		if c.Early != nil {
			if err := c.Early(&c.resp); err != nil {
				c.refused = true
				return err
			}
		}
	}
	return wire.ErrMalformed
}

// fault classifies err, which using the connection failed with. A failure of
// the body or of sending shows on the reading side as a closed connection.
func (c *Call) fault(err error) *Error {
	e := &Error{Kind: Reset, Addr: c.Node, Err: err}
	read, send := c.upload.faults()
	switch {
	case c.isAborted():
		e.Kind = Aborted
	case read != nil:
		e.Kind, e.Err = ClientBody, read
	case errors.Is(send, os.ErrDeadlineExceeded):
		e.Kind, e.Err = Timeout, send
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Kind = Timeout
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrHeadTooLarge),
		errors.Is(err, wire.ErrVersion):
		e.Kind = Malformed
	case err == io.EOF:
		e.Err = nil
	}
	return e
}

// idempotent reports whether a request of that method, of which bytes may have
// reached a node, can be sent again (RFC 9110 §9.2.2 and the IANA registry of
// methods). An unknown method cannot.
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY",
		"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "UNLOCK", "REPORT", "SEARCH":
		return true
	}
	return false
}
