package l4

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir/internal/monotonic"
	"weir/internal/wire"
)

const (
	// maxDatagram is the largest that UDP has.
	maxDatagram = 64 << 10

	// waitingDatagrams bounds what a client may send ahead of its session.
	waitingDatagrams = 64

	// quiet is how long a session of UDP must be silent to be over when the
	// gateway stops.
	quiet = time.Second
)

// A udpPort is one UDP socket and the sessions of its clients.
type udpPort struct {
	engine *Engine
	socket *net.UDPConn
	stats  *counts
	server netip.AddrPort

	mu       sync.Mutex
	sessions map[netip.AddrPort]*udpSession
}

// A udpSession is what one client sends, and the answers.
type udpSession struct {
	*session
	from  *udpPort
	in    chan *datagram
	first []byte
}

// A datagram is one in pooled memory.
type datagram struct {
	*wire.Buffer
	n int
}

func (d *datagram) bytes() []byte { return d.B[:d.n] }

// ServeUDP reads datagrams until the socket is closed, which it does itself when
// the engine stops.
func (e *Engine) ServeUDP(socket *net.UDPConn) error {
	if !e.drain.Enter() {
		return socket.Close()
	}
	defer e.drain.Leave()
	defer socket.Close()
	p := &udpPort{
		engine: e, socket: socket, stats: e.newPort(socket.LocalAddr().String()),
		server: addrPort(socket.LocalAddr()), sessions: map[netip.AddrPort]*udpSession{},
	}
	stop := context.AfterFunc(e.context, func() { socket.Close() })
	defer stop()
	big := wire.GetBuffer(maxDatagram)
	defer big.Free()
	for {
		if e.drain.Begun() && p.drained() {
			return nil
		}
		_ = socket.SetReadDeadline(time.Now().Add(quiet)) // a closed socket fails below
		n, from, err := socket.ReadFromUDPAddrPort(big.B)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			continue
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			e.Log.Warn("cannot read a datagram", "listener", p.server, "err", err)
			continue
		}
		p.deliver(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), big.B[:n])
	}
}

// deliver hands a datagram to its client's session.
func (p *udpPort) deliver(from netip.AddrPort, b []byte) {
	s := p.sessionOf(from)
	if s == nil {
		return
	}
	d := &datagram{Buffer: wire.GetBuffer(len(b))}
	d.n = copy(d.B, b)
	select {
	case s.in <- d:
	default: // as UDP does, where nobody can take it
		d.Free()
	}
}

// sessionOf returns the client's session and begins one if there is none; nil:
// it may not begin.
func (p *udpPort) sessionOf(from netip.AddrPort) *udpSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[from]; s != nil {
		return s
	}
	if p.engine.drain.Begun() {
		return nil
	}
	if len(p.sessions) >= p.engine.MaxUDP {
		p.evict()
	}
	s := &udpSession{session: p.engine.newSession(p.stats, "UDP", from, p.server), from: p, in: make(chan *datagram, waitingDatagrams)}
	s.ctx.Peek = s.peek
	s.touch()
	p.sessions[from] = s
	p.engine.drain.Go(s.serve)
	return s
}

// evict ends the session that has been silent the longest. p.mu is held.
func (p *udpPort) evict() {
	var oldest *udpSession
	for _, s := range p.sessions {
		if oldest == nil || s.last.Load() < oldest.last.Load() {
			oldest = s
		}
	}
	if oldest != nil {
		delete(p.sessions, oldest.ctx.Peer)
		oldest.end()
	}
}

// drained ends sessions that are silent and says whether none is left.
func (p *udpPort) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for from, s := range p.sessions {
		if monotonic.Now()-s.last.Load() >= int64(quiet) {
			delete(p.sessions, from)
			s.end()
		}
	}
	return len(p.sessions) == 0
}

func (p *udpPort) forget(s *udpSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.ctx.Peer] == s {
		delete(p.sessions, s.ctx.Peer)
	}
}

var errShort = errors.New("the first datagram is shorter")

// peek is StreamCtx.Peek.
func (s *udpSession) peek(n int) ([]byte, error) {
	if n > len(s.first) {
		return nil, errShort
	}
	return s.first[:n], nil
}

func (s *udpSession) serve() {
	r := s.run()
	s.from.forget(s)
	for {
		select {
		case d := <-s.in:
			d.Free()
			continue
		default:
		}
		break
	}
	s.close(r)
}

func (s *udpSession) run() *refusal {
	d := s.next()
	if d == nil {
		return nil
	}
	s.first = d.bytes()
	r := s.open()
	if r != nil {
		d.Free()
		return r
	}
	s.idle.Store(int64(s.link.Idle))
	stop := context.AfterFunc(s.gone, func() { s.link.Conn.Close() })
	defer stop()
	var answers sync.WaitGroup
	answers.Go(s.answer)
	for up := s.upward(); d != nil; d = s.next() {
		s.touch()
		up.came(d.n)
		// What fails now, for instance because the last datagram met a closed port,
		// may work with the next.
		n, _ := s.link.Write(d.bytes())
		up.went(int64(n))
		s.first = nil
		d.Free()
	}
	answers.Wait()
	return nil
}

// next waits for the client's next datagram; nil: the session is over.
func (s *udpSession) next() *datagram {
	select {
	case d := <-s.in:
		return d
	case <-s.gone.Done():
		return nil
	}
}

// answer sends the client what comes from the node.
func (s *udpSession) answer() {
	down := s.downward()
	b := wire.GetBuffer(piece)
	defer func() { b.Free() }()
	for {
		n, err := s.link.Read(b.B)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // ICMP: nobody listens there at present
			if s.gone.Err() != nil {
				return
			}
			continue
		case n == len(b.B) && n < maxDatagram:
			// It may have been cut. Room for any other is made; this one is lost.
			b.Free()
			b = wire.GetBuffer(maxDatagram)
			continue
		}
		s.touch()
		down.came(n)
		m, err := s.from.socket.WriteToUDPAddrPort(b.B[:n], s.ctx.Peer)
		down.went(int64(m))
		if errors.Is(err, net.ErrClosed) {
			s.end()
			return
		}
	}
}
