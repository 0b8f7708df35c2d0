package engine

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"weir/internal/wire"
)

// A Connection is a client connection in a protocol that another package
// speaks. It makes the exchanges of its requests.
type Connection struct {
	net.Conn     // nil: the protocol keeps it to itself
	engine       *Engine
	end          func() // at once
	secure       *secure
	server, peer netip.AddrPort
	proxied      netip.AddrPort

	mu       sync.Mutex
	all      []*Exchange // ever made
	idle     []*Exchange
	quiet    sync.Cond // on mu: nothing is running
	running  int       // exchanges
	since    time.Time // when that became none
	released bool
}

// serveHTTP2 hands a connection to the one that speaks HTTP/2.
func (e *Engine) serveHTTP2(nc net.Conn, s *secure) {
	c := e.open(nc.RemoteAddr(), nc.LocalAddr(), s, func() { nc.Close() })
	defer c.Release()
	c.Conn, c.proxied = nc, proxied(nc)
	e.HTTP2.Serve(c)
}

// Open makes a Connection of a client that a protocol has accepted itself. end
// closes it at once; Release must follow.
func (e *Engine) Open(peer, server net.Addr, s *Handshake, state tls.ConnectionState, end func()) *Connection {
	s.done(state)
	return e.open(peer, server, s, end)
}

func (e *Engine) open(peer, server net.Addr, s *secure, end func()) *Connection {
	c := &Connection{engine: e, secure: s, end: end, peer: addrPort(peer), server: addrPort(server), since: time.Now()}
	c.quiet.L = &c.mu
	e.add(c)
	return c
}

// Release ends the use of c. It waits for the requests that are still served: a
// client that has left does not wait for their end.
func (c *Connection) Release() {
	c.mu.Lock()
	c.released = true
	for c.running > 0 {
		c.quiet.Wait()
	}
	c.mu.Unlock()
	c.engine.remove(c)
	for _, x := range c.all {
		x.close()
	}
}

// endIdle implements member: Protocol.Drain has done it.
func (c *Connection) endIdle() {}

func (c *Connection) kill() { c.end() }

// TLS is the state of the connection's handshake, nil if it is plain.
func (c *Connection) TLS() *tls.ConnectionState {
	if c.secure == nil {
		return nil
	}
	return &c.secure.state
}

// Stream is the client's side of one exchange.
type Stream = stream

// Upload is the client's body.
type Upload = upload

// NewUpload describes a body that is read by r. trailer are the fields behind
// it, stop makes a read return.
func NewUpload(r interface{ Read([]byte) (int, error) }, trailer func() *wire.Header, stop func()) Upload {
	n := &measured{r: r}
	return upload{
		Reader:  n,
		whole:   func(b []byte) ([]byte, bool) { return b, false },
		trailer: trailer,
		stop:    stop,
		want:    func() error { return nil },
		waiting: func(bool) {},

		received: func() int64 { return n.bytes },
	}
}

// measured is a body and how much of it was read.
type measured struct {
	r     interface{ Read([]byte) (int, error) }
	bytes int64
	limit func() int64 // nil: none
	took  *span
}

func (c *measured) Read(p []byte) (int, error) {
	c.took.begin()
	n, err := c.r.Read(p)
	c.took.end()
	c.bytes += int64(n)
	if c.limit != nil {
		if limit := c.limit(); limit > 0 && c.bytes > limit {
			err = errBodyTooLarge
		}
	}
	return n, err
}

// Ready says that Read would not wait.
func (c *measured) Ready() bool {
	r, ok := c.r.(interface{ Ready() bool })
	return ok && r.Ready()
}

// An Exchange is one request of a Connection.
type Exchange struct {
	exchange
	gone chan struct{} // holds one when the client has left

	timed   timed
	reading span   // of the body
	cut     Cutter // nil: not in use; guarded by Connection.mu
}

// Exchange returns an exchange whose request the caller fills, with the stream
// that takes the answer; Done gives it back. It is nil if the client has left.
func (c *Connection) Exchange(s Stream, u Upload) *Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return nil
	}
	x := c.take()
	c.running++
	x.timed.stream = s
	x.stream, x.upload = &x.timed, u
	x.cut, _ = s.(Cutter)
	if m, ok := u.Reader.(*measured); ok {
		m.limit, m.took = x.maxBody, &x.reading
	}
	x.request.Reset()
	return x
}

// take finds or makes an exchange; c.mu is held.
func (c *Connection) take() *Exchange {
	if n := len(c.idle); n > 0 {
		x := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return x
	}
	x := &Exchange{gone: make(chan struct{}, 1)}
	x.reading.clock, x.timed.took.clock = &c.engine.clock, &c.engine.clock
	x.exchange.init(c.engine, nil, upload{})
	x.ctx.Peer, x.ctx.Server, x.ctx.Proxied = c.peer, c.server, c.proxied
	x.peer, x.serverPort = c.peer.Addr().String(), strconv.Itoa(int(c.server.Port()))
	x.ctx.Pause = x.pause
	x.secure, x.ctx.Scheme = c.secure, "http"
	if c.secure != nil {
		x.ctx.Scheme, x.ctx.TLS = "https", &c.secure.state
	}
	c.all = append(c.all, x)
	return x
}

// Request is the request to be filled.
func (x *Exchange) Request() *wire.Request { return &x.request }

// Serve answers the request. whole is false if the answer was cut: the client
// must not take it for complete.
func (x *Exchange) Serve() (whole bool) {
	x.begin(time.Now())
	x.ctx.Sent.Received = headSize(&x.request)
	x.handle()
	return !x.broken
}

// headSize is the size of a request's head as HTTP/1.1 writes it.
func headSize(r *wire.Request) int64 {
	n := len(r.Method) + len(r.Target) + len("  HTTP/1.1\r\n") + len("host: \r\n") + len(r.Host) + len("\r\n")
	for _, f := range r.Header.Fields() {
		n += len(f.Name) + len(f.Value) + len(": \r\n")
	}
	return int64(n)
}

// Abort ends the wait for the upstream, or a pause, for a client that has left.
func (x *Exchange) Abort() {
	x.call.Abort()
	select {
	case x.gone <- struct{}{}:
	default:
	}
}

// pause waits as plugins ask for it.
func (x *Exchange) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.gone:
		return false
	}
}

// Wrote counts bytes of the body that went to the client.
func (x *Exchange) Wrote(n int) {
	x.ctx.Sent.BodyBytes += int64(n)
	x.ctx.Sent.Bytes += int64(n)
}

// Trailer is the trailer of the answer, complete when its body is; nil: none.
func (x *Exchange) Trailer() *wire.Header { return x.trailer }

// Done gives x back. Nothing of it may be used any more.
func (c *Connection) Done(x *Exchange) {
	select {
	case <-x.gone:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x.cut, x.timed.stream = nil, nil
	c.idle = append(c.idle, x)
	if c.running--; c.running == 0 {
		c.since = time.Now()
		c.quiet.Broadcast()
	}
}

// replayed is a connection of which something was read already.
type replayed struct {
	net.Conn
	read []byte
}

func (r replayed) conn() net.Conn { return &r }

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.read) > 0 {
		n := copy(p, r.read)
		r.read = r.read[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
