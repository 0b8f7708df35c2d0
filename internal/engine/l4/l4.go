// Package l4 proxies TCP connections and UDP datagrams by stream routes. A
// session holds its route's plan and its upstream, nothing else of the
// configuration, so that it outlives any change.
package l4

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir/internal/listen"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/wire"
)

// Config is how sessions are treated.
type Config struct {
	State *snapshot.Applier
	Log   *slog.Logger

	// AccessLog is called after every session; nil: no access log.
	AccessLog func(*plugin.StreamCtx)

	// FallbackSNI is the name of TLS clients that give none; empty: they are
	// refused.
	FallbackSNI string

	// Trusted says whose PROXY header tells who the client is; nil: everybody's
	// word is taken on the ports that ask for the header.
	Trusted func(netip.Addr) bool

	// HandshakeTimeout bounds the PROXY header and the TLS handshake,
	// PrereadTimeout what plugins wait for; 0: 60 s and 30 s.
	HandshakeTimeout, PrereadTimeout time.Duration

	MaxUDP int // sessions of one UDP port; 0: 10,000

	Room *listen.Room // for TCP sessions, shared with other engines; nil: unlimited
}

// A Port says what connections to one port begin with and are told of.
type Port struct {
	TLS   bool // a TLS handshake, after the PROXY header if there is one
	Proxy bool // a PROXY header

	// ProxyToUpstream sends upstreams a PROXY header, version 1.
	ProxyToUpstream bool
}

// An Engine serves ports. Make it with New.
type Engine struct {
	Config
	empty wire.Request // stands for the request that streams have not

	mu       sync.Mutex
	sessions map[*session]struct{}
	ports    []*counts
	drain    listen.Drain    // connections and acceptors
	context  context.Context // ends when sessions are cut
	cut      context.CancelFunc
	stop     chan struct{}
	stopOnce sync.Once
	sweeper  sync.WaitGroup
}

// New makes an engine; Shutdown ends it.
func New(cfg Config) *Engine {
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = time.Minute
	}
	if cfg.PrereadTimeout <= 0 {
		cfg.PrereadTimeout = 30 * time.Second
	}
	if cfg.MaxUDP <= 0 {
		cfg.MaxUDP = 10_000
	}
	e := &Engine{Config: cfg, sessions: map[*session]struct{}{}, stop: make(chan struct{})}
	e.context, e.cut = context.WithCancel(context.Background())
	e.sweeper.Go(e.sweep)
	return e
}

// Serve accepts connections until the listener is closed or fails for good.
func (e *Engine) Serve(l net.Listener, how Port) error {
	if !e.drain.Enter() {
		return nil
	}
	defer e.drain.Leave()
	p := e.newPort(l.Addr().String())
	return listen.Accept(l, e.Log, e.drain.Begun, func(nc net.Conn) {
		if !e.Room.Enter(e.drain.Begun) {
			nc.Close()
			return
		}
		e.drain.Go(func() {
			defer e.Room.Leave()
			e.serveTCP(nc, p, how)
		})
	})
}

// Shutdown stops accepting and returns when all sessions are over or, after
// cutting the rest, when ctx ends. It closes what it is given; sessions of UDP
// end once they are quiet.
func (e *Engine) Shutdown(ctx context.Context, listeners ...net.Listener) error {
	e.drain.Begin()
	for _, l := range listeners {
		l.Close()
	}
	e.Room.Wake()
	err := e.drain.Wait(ctx, func() {
		e.cut()
		e.each((*session).end)
	})
	e.cut()
	e.stopOnce.Do(func() { close(e.stop) })
	e.sweeper.Wait()
	return err
}

// sweepEvery is how exactly idle time-outs are kept.
const sweepEvery = 250 * time.Millisecond

// sweep ends sessions that are silent for too long.
func (e *Engine) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-t.C:
			e.each(func(s *session) {
				if s.expired(now) {
					s.end()
				}
			})
		}
	}
}

func (e *Engine) each(f func(*session)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.sessions {
		f(s)
	}
}

// Sessions is the number of sessions.
func (e *Engine) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

func (e *Engine) add(s *session) {
	e.mu.Lock()
	e.sessions[s] = struct{}{}
	e.mu.Unlock()
}

func (e *Engine) remove(s *session) {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
}

// addrPort is the address of a TCP or UDP connection's end.
func addrPort(a net.Addr) netip.AddrPort {
	var p netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		p = a.AddrPort()
	case *net.UDPAddr:
		p = a.AddrPort()
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
