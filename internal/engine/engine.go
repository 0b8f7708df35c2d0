// Package engine is the data plane: it accepts connections, reads requests,
// runs the plan of the route they match and streams the answer. One goroutine
// serves one connection; none of them ever does configuration work.
package engine

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cert"
	"weir/internal/listen"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/wire"
)

// Config is how the data plane treats its clients.
type Config struct {
	State *snapshot.Applier
	Log   *slog.Logger

	// AccessLog is called after every request; nil: no access log.
	AccessLog func(*plugin.Ctx)

	Server string // value of the Server response header
	Limits wire.Limits

	// KeepaliveTimeout bounds the wait for the next request of a connection,
	// HeaderTimeout a request's head, BodyTimeout the wait between two reads of
	// its body, SendTimeout the wait between two writes. They are enforced within
	// a second or a tenth of their length, whichever is shorter.
	KeepaliveTimeout, HeaderTimeout, BodyTimeout, SendTimeout time.Duration

	// NoKeepalive ends HTTP/1 connections after one request.
	NoKeepalive bool

	// NoUnderscores ignores the header fields of clients whose names have an
	// underscore (nginx: underscores_in_headers off).
	NoUnderscores bool

	// RealIP says who reports the client's address; nil: nobody.
	RealIP *RealIP

	// Trusted says whose X-Forwarded-* and Forwarded are believed; nil: nobody's,
	// and X-Forwarded-For is continued whoever sent it.
	Trusted func(netip.Addr) bool

	// Products serves 3scale products, in the manner of APIcast, and no routes.
	Products bool

	// WantHost is told of the host of a request to a product before it is looked
	// up. It may wait, within a bound, until that is known; nil: all hosts are.
	WantHost func(host string)

	// Certificate chooses the certificate of a TLS connection; nil: the ssl objects
	// have it.
	Certificate func(*tls.ClientHelloInfo) (*cert.Certificate, error)

	// HTTP2 speaks HTTP/2; nil: it is not spoken.
	HTTP2 Protocol

	// HTTP3 speaks HTTP/3; nil: it is not spoken.
	HTTP3 PacketProtocol

	// FallbackSNI is the name of TLS clients that give none; empty: they are
	// refused.
	FallbackSNI string

	MaxBody            int64        // bytes of a request's body, 0: unlimited; above: 413
	MaxConnections     int          // in all; 0: unlimited; above, connections wait to be served
	MaxPerAddress      int          // connections of one address; 0: unlimited; above, they are closed
	Room               *listen.Room // for connections, shared with other engines; nil: unlimited
	KeepSlashes        bool         // repeated slashes stay significant
	Paths              Paths
	BodyLimits         plugin.Limits // of variables
	ShowUpstreamStatus bool          // X-APISIX-Upstream-Status on every answer
}

// A Protocol serves connections in a protocol other than HTTP/1.1.
type Protocol interface {
	// Serve serves one connection until it ends.
	Serve(*Connection)
	// Drain has every connection finish its requests and end.
	Drain()
}

// A PacketProtocol serves clients that come in packets.
type PacketProtocol interface {
	// Serve serves the clients of pc with exchanges of e until Drain, and returns
	// when they are gone. It closes pc.
	Serve(e *Engine, pc net.PacketConn) error
	// Drain lets no new client in, and has every other finish its requests and
	// leave.
	Drain()
}

// A member is a connection as Shutdown sees it.
type member interface {
	endIdle() // end unless a request is being served or comes at once
	kill()
}

// An Engine serves listeners. Make it with New.
type Engine struct {
	Config
	mu       sync.Mutex
	members  map[member]struct{}
	drain    listen.Drain // connections and acceptors
	door     *door
	clock    clock
	counters counters
	watch    atomic.Pointer[Watch]
	stop     chan struct{}
	stopOnce sync.Once
	sweeper  sync.WaitGroup
	lastWait time.Duration // see the constant
}

// New makes an engine and starts its sweeper; Shutdown ends both.
func New(cfg Config) *Engine {
	e := &Engine{Config: cfg, members: map[member]struct{}{}, door: newDoor(cfg.MaxConnections, cfg.MaxPerAddress, cfg.Room), stop: make(chan struct{}), lastWait: lastWait}
	e.clock.set(time.Now())
	e.sweeper.Go(e.sweep)
	return e
}

// Serve accepts connections until the listener is closed, which Shutdown does
// by closing what it is given, or until an error that does not pass.
func (e *Engine) Serve(l net.Listener) error { return e.accept(l, e.serve) }

// ServeTLS is Serve for a listener whose clients begin with a TLS handshake.
func (e *Engine) ServeTLS(l net.Listener) error { return e.accept(l, e.serveTLS) }

// ServePackets serves HTTP/3 on pc until Shutdown, which closes it.
func (e *Engine) ServePackets(pc net.PacketConn) error {
	if !e.drain.Enter() {
		return pc.Close()
	}
	defer e.drain.Leave()
	return e.HTTP3.Serve(e, pc)
}

func (e *Engine) accept(l net.Listener, serve func(net.Conn)) error {
	if !e.drain.Enter() {
		return nil
	}
	defer e.drain.Leave()
	return listen.Accept(l, e.Log, e.drain.Begun, func(nc net.Conn) {
		if !e.door.take(e.drain.Begun) {
			nc.Close()
			return
		}
		e.drain.Go(func() {
			defer e.door.leaveSocket()
			e.admitted(nc, serve)
		})
	})
}

// Shutdown stops accepting, lets every request that has begun, or comes on an open
// connection in the next tenth of a second, finish, and
// returns when all connections are closed or, after closing the rest at once,
// when ctx ends. It closes the given listeners; it may be called again.
func (e *Engine) Shutdown(ctx context.Context, listeners ...net.Listener) error {
	e.drain.Begin()
	for _, l := range listeners {
		l.Close()
	}
	e.Room.Wake()
	if e.HTTP2 != nil {
		e.HTTP2.Drain()
	}
	if e.HTTP3 != nil {
		e.HTTP3.Drain()
	}
	e.each(member.endIdle)
	err := e.drain.Wait(ctx, func() { e.each(member.kill) })
	e.stopOnce.Do(func() { close(e.stop) })
	e.sweeper.Wait()
	return err
}

func (e *Engine) each(f func(member)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.members {
		f(c)
	}
}

// Connections is the number of open client connections.
func (e *Engine) Connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.members)
}

func (e *Engine) add(c member) {
	e.counters.accepted.Add(1)
	e.mu.Lock()
	e.members[c] = struct{}{}
	e.mu.Unlock()
}

func (e *Engine) remove(c member) {
	e.mu.Lock()
	delete(e.members, c)
	e.mu.Unlock()
}
