package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
	"weir/internal/wire"
)

// A conn is one HTTP/1.1 client connection and the memory its requests share.
type conn struct {
	exchange
	nc    net.Conn
	in    wire.Reader
	probe *wire.Probe

	read, write deadline

	state    atomic.Int64 // see below
	used     atomic.Bool  // something has come from the client
	upgraded bool         // a tunnel has used the connection up

	stopped atomic.Bool   // the rest of the body is not wanted
	left    chan struct{} // holds one when nobody waits for the answer any more
	gone    error         // why reading stopped in the middle of a body
	partial bool          // some bytes of the next head have arrived
	inHead  bool          // reading a head: Read sets the head's own deadline

	head, tail []byte // what is being written around a piece of body
	vec        net.Buffers
	vecs       [3][]byte

	framing   framing
	continued bool  // 100 Continue was sent, or need not be
	body      int64 // bytes read of the request's body
	total     int64 // bytes read from the client
	before    int64 // of them before this request
}

// The states of a connection. While it waits for an upstream the state is the
// time in nanoseconds since when, always above the named ones.
const (
	idle     int64 = iota // between requests
	tired                 // idle, and was so when the sweeper last looked for room
	active                // a request is served
	aborting              // the sweeper ends the upstream call
	closing               // must not begin another request
)

// A framing is how the end of a response's body is marked.
type framing uint8

const (
	noBody framing = iota
	counted
	chunked
	untilClose
)

func (e *Engine) serve(nc net.Conn) {
	defer nc.Close()
	e.serveHTTP1(nc, nil)
}

// serveTLS serves a connection that begins with a handshake.
func (e *Engine) serveTLS(nc net.Conn) {
	defer nc.Close()
	t, s, err := e.handshake(nc)
	if err != nil {
		e.Log.Info("TLS handshake failed", "client", nc.RemoteAddr(), "err", err)
		return
	}
	defer t.Close()
	if s.state.NegotiatedProtocol == "h2" {
		e.serveHTTP2(t, s)
		return
	}
	e.serveHTTP1(t, s)
}

func (e *Engine) serveHTTP1(nc net.Conn, s *secure) {
	c := newConn(e, nc, s)
	e.add(c)
	defer e.remove(c)
	defer c.release()
	http2, silent := c.begins(e.HTTP2 != nil && s == nil)
	switch {
	case silent:
		return
	case http2:
		e.remove(c)
		c.read.clear() // that of the first request's head
		e.serveHTTP2(replayed{nc, append([]byte(nil), c.in.Rest()...)}.conn(), nil)
		return
	}
	for c.next() {
		c.in.Next()
	}
}

// preface begins an HTTP/2 connection (RFC 9113 §3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// begins looks, where HTTP/2 may be spoken, how a plain connection begins: with
// HTTP/2's preface, or not at all.
func (c *conn) begins(mayBeHTTP2 bool) (http2, silent bool) {
	if !mayBeHTTP2 {
		return false, false
	}
	c.inHead = true
	is, err := c.in.HasPrefix(preface)
	return is && err == nil, err != nil && c.in.Unread() == 0
}

// plainConn is the connection beneath TLS.
func plainConn(nc net.Conn) net.Conn {
	if t, ok := nc.(*tls.Conn); ok {
		return t.NetConn()
	}
	return nc
}

func newConn(e *Engine, nc net.Conn, s *secure) *conn {
	c := &conn{nc: nc, probe: wire.NewProbe(plainConn(nc)), left: make(chan struct{}, 1)}
	c.read.set, c.write.set = nc.SetReadDeadline, nc.SetWriteDeadline
	c.exchange.init(e, c, upload{
		Reader:  body{c},
		whole:   c.in.WholeBody,
		trailer: c.in.Trailer,
		stop:    c.stopBody,
		want:    c.want,

		continued: func() bool { return c.continued },
		waiting:   c.waiting,

		received: c.received,
	})
	c.ctx.Peer, c.ctx.Server = addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr())
	c.ctx.Proxied = proxied(nc)
	c.peer = c.ctx.Peer.Addr().String()
	c.serverPort = strconv.Itoa(int(c.ctx.Server.Port()))
	c.ctx.Scheme, c.secure = "http", s
	if s != nil {
		c.ctx.Scheme, c.ctx.TLS = "https", &s.state
	}
	c.ctx.Pause = c.pause
	c.in.Reset(reader{c}, e.Limits)
	return c
}

// proxied is who a PROXY header says the client is; zero: nothing does.
func proxied(nc net.Conn) netip.AddrPort {
	if r, ok := nc.(*replayed); ok {
		nc = r.Conn
	}
	if p, ok := plainConn(nc).(interface{ Proxied() netip.AddrPort }); ok {
		who := p.Proxied()
		return netip.AddrPortFrom(who.Addr().Unmap(), who.Port())
	}
	return netip.AddrPort{}
}

// addrPort is the address with IPv4 in its plain form.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func (c *conn) release() {
	c.exchange.close()
	c.in.Reset(nil, wire.Limits{})
}

// next serves one request and reports whether another may follow.
func (c *conn) next() bool {
	if !c.state.CompareAndSwap(active, idle) && c.busy() {
		return false
	}
	c.inHead, c.partial = true, c.in.Unread() > 0
	c.before = c.total - int64(c.in.Unread())
	// Whoever else is ready to run goes first: under load the next request is
	// there by then, which saves a read that finds nothing, a wait and a wake-up.
	runtime.Gosched()
	err := c.in.ReadRequest(&c.request)
	c.inHead = false
	if !c.rouse() && c.state.Load() == closing {
		if err != nil {
			return false // Shutdown ended the connection while it was idle
		}
		c.state.Store(active) // the request was quicker
		c.read.clear()
	}
	c.begin(time.Now())
	if err != nil {
		return c.refuseHead(err)
	}
	c.continued, c.body, c.gone = !c.request.Expect, 0, nil
	c.handle()
	return c.finish()
}

// refuseHead answers a head that cannot be served. Silence ends quietly.
func (c *conn) refuseHead(err error) bool {
	switch {
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrFieldLine):
		c.fail(400, err)
	case errors.Is(err, wire.ErrStartLine):
		c.fail(414, err)
	case errors.Is(err, wire.ErrHeadTooLarge):
		c.fail(431, err)
	case errors.Is(err, wire.ErrExpectation):
		c.fail(417, err)
	case c.partial && isTimeout(err) && c.state.Load() != closing:
		c.fail(408, err)
	default:
		return false
	}
	c.linger()
	return false
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// reader is the connection as its parser reads it, with deadlines.
type reader struct{ c *conn }

func (r reader) Read(p []byte) (int, error) {
	c := r.c
	switch {
	case !c.inHead:
		c.read.extend(&c.engine.clock, c.engine.BodyTimeout)
	case c.partial:
		// Once per head: a sender that drips bytes does not move it.
		if !c.busy() && c.rouse() {
			if c.engine.drain.Begun() {
				c.read.clear() // Shutdown has moved it, which it does not know
			}
			c.read.extend(&c.engine.clock, c.engine.HeaderTimeout)
		}
	default:
		c.read.extend(&c.engine.clock, c.engine.KeepaliveTimeout)
		// After the deadline was set: Shutdown moves it forward.
		if c.engine.drain.Begun() {
			c.hurry()
		}
	}
	// After the deadline was set: whoever stops the body moves it into the past.
	if c.stopped.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.nc.Read(p)
	c.total += int64(n)
	if n > 0 && c.inHead {
		c.partial = true
		if !c.used.Load() {
			c.used.Store(true)
		}
	}
	return n, err
}

// A body is the connection's current request body.
type body struct{ c *conn }

// Read reads decoded bytes.
func (b body) Read(p []byte) (int, error) {
	c := b.c
	n, err := c.in.ReadBody(p)
	c.body += int64(n)
	if limit := c.maxBody(); limit > 0 && c.body > limit {
		err = errBodyTooLarge
	}
	if err != nil && err != io.EOF {
		c.gone = err
	}
	return n, err
}

// Ready says that Read would not wait.
func (b body) Ready() bool { return b.c.in.BodyDone() || len(b.c.in.Buffered()) > 0 }

// received is how much of the current request was read.
func (c *conn) received() int64 { return c.total - int64(c.in.Unread()) - c.before }

// stopBody makes a read of the body return, whoever does it.
func (c *conn) stopBody() {
	c.stopped.Store(true)
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// want sends 100 Continue once, to a client that waits for it.
func (c *conn) want() error {
	if c.continued {
		return nil
	}
	c.continued = true
	return c.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
}

func (c *conn) send(p []byte) error {
	c.write.extend(&c.engine.clock, c.engine.SendTimeout)
	n, err := c.nc.Write(p)
	c.ctx.Sent.Bytes += int64(n)
	return err
}

// finish ends the exchange on the connection and reports whether the next
// request may follow: its body must be out of the way first.
func (c *conn) finish() bool {
	switch {
	case c.upgraded:
		return false
	case c.broken:
		c.reset()
		return false
	case c.closeAfter, c.gone != nil, !c.continued && !c.in.BodyDone():
		c.linger()
		return false
	case c.in.BodyDone() || c.request.Length <= drainLimit && c.drain(drainLimit):
		return true
	}
	c.linger()
	return false
}

// reset makes the connection's end visible as a failure where a plain end
// would pass for the end of the body.
func (c *conn) reset() {
	if t, ok := c.nc.(*net.TCPConn); ok && c.framing == untilClose {
		t.SetLinger(0)
	}
}

// drainLimit bounds what is read of an unwanted body to save the connection.
const drainLimit = 64 << 10

func (c *conn) drain(limit int64) bool {
	var p [4 << 10]byte
	for n := int64(0); n <= limit; {
		k, err := c.in.ReadBody(p[:])
		n += int64(k)
		if err != nil {
			return err == io.EOF
		}
	}
	return false
}

// lingerTime and lingerBytes bound what is read after the last answer.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
)

// linger closes the sending side and reads on for a moment if the client may
// still be sending: closing with unread bytes would reset the connection and could destroy the answer on its way
// (RFC 9112 §9.6).
func (c *conn) linger() {
	if c.gone == nil && c.in.BodyDone() && c.in.Unread() == 0 {
		return
	}
	t, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || t.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	var p [4 << 10]byte
	for n := 0; n < lingerBytes; {
		k, err := c.nc.Read(p[:])
		n += k
		if err != nil {
			return
		}
	}
}

// waiting is called before and after the exchange waits for its upstream.
func (c *conn) waiting(begin bool) {
	since := monotonic.Of(c.ctx.Start)
	if begin {
		c.state.CompareAndSwap(active, since)
		return
	}
	for !c.state.CompareAndSwap(since, active) && c.state.Load() == aborting {
		time.Sleep(time.Millisecond) // the sweeper is between its two steps
	}
}

// abortIfGone ends the upstream call of a client that has closed its side.
func (c *conn) abortIfGone(now time.Time) {
	s := c.state.Load()
	if s <= closing || monotonic.Of(now)-s < int64(time.Second) || c.probe == nil {
		return
	}
	if c.probe.State() != wire.Ended || !c.state.CompareAndSwap(s, aborting) {
		return
	}
	c.call.Abort()
	c.leave()
	c.state.Store(active)
}

// leave ends a pause, the present or the next one.
func (c *conn) leave() {
	select {
	case c.left <- struct{}{}:
	default:
	}
}

// pause implements plugin.Ctx's Pause.
func (c *conn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	c.waiting(true)
	defer c.waiting(false)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.left:
		return false
	}
}

// How long Shutdown waits for the first request of a connection, which is on its way,
// and for another one of a client that does not know yet. That one is answered with
// Connection: close.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 100 * time.Millisecond
)

func (c *conn) hurry() {
	wait := firstWait
	if c.used.Load() {
		wait = c.engine.lastWait
	}
	c.nc.SetReadDeadline(time.Now().Add(wait))
}

// endIdle closes the connection unless a request is being served or comes soon.
func (c *conn) endIdle() {
	if !c.used.Load() {
		c.hurry()
		return
	}
	time.AfterFunc(c.engine.lastWait, c.endWaiting)
}

// endWaiting closes the connection unless a request is being served.
func (c *conn) endWaiting() {
	if c.leaveIdle(closing) {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// rouse says that a request is served from now on; false: it was before.
func (c *conn) rouse() bool { return c.leaveIdle(active) }

// leaveIdle makes the state of an idle connection to; false: it is not idle.
func (c *conn) leaveIdle(to int64) bool {
	return c.state.CompareAndSwap(idle, to) || c.state.CompareAndSwap(tired, to)
}

// tire reports whether the connection was idle since it was last called.
func (c *conn) tire() bool {
	return !c.state.CompareAndSwap(idle, tired) && c.state.Load() == tired
}

func (c *conn) kill() {
	c.nc.Close()
	c.leave()
}
