package l4

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/cert"
	"weir/internal/plugin"
	"weir/internal/proxyproto"
)

// maxPeek bounds what plugins may ask for (nginx: preread_buffer_size).
const maxPeek = 16 << 10

// half is how long a node that has sent everything waits for the client to leave.
const half = 10 * time.Second

var errTooMuch = errors.New("more is asked for than is kept of the client's first bytes")

// A tcpSession is a session of one connection.
type tcpSession struct {
	*session
	how    Port
	tcp    net.Conn // as it was accepted
	client net.Conn // tcp, or TLS over it
	first  []byte   // what plugins have looked at
	until  time.Time
}

func (e *Engine) serveTCP(nc net.Conn, p *counts, how Port) {
	s := &tcpSession{
		session: e.newSession(p, "TCP", addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr())),
		how:     how, tcp: nc, client: nc,
	}
	s.ctx.Peek = s.peek
	stop := context.AfterFunc(s.gone, func() { nc.Close() })
	r := s.run()
	if r != nil && r.early {
		refuse(nc, len(s.first) > 0)
	}
	stop()
	s.client.Close()
	nc.Close()
	s.close(r)
}

// run serves the session until it is over; not nil: it was refused.
func (s *tcpSession) run() *refusal {
	if err := s.begin(); err != nil {
		return &refusal{status: statusBadData, err: err}
	}
	s.until = time.Now().Add(s.engine.PrereadTimeout)
	if r := s.open(); r != nil {
		r.early = true
		return r
	}
	stop := context.AfterFunc(s.gone, func() { s.link.Conn.Close() })
	defer stop()
	_ = s.tcp.SetReadDeadline(time.Time{}) // a dead connection fails below
	s.touch()
	s.idle.Store(int64(s.link.Idle))
	if err := s.greet(); err != nil {
		return &refusal{status: statusBadGateway, err: err}
	}
	return s.join()
}

// begin takes in what stands before the stream itself.
func (s *tcpSession) begin() error {
	if !s.how.Proxy && !s.how.TLS {
		return nil
	}
	if err := s.tcp.SetReadDeadline(time.Now().Add(s.engine.HandshakeTimeout)); err != nil {
		return err
	}
	if s.how.Proxy {
		h, err := proxyproto.Read(s.tcp)
		if err != nil {
			return err
		}
		s.believe(h)
	}
	if s.how.TLS {
		return s.handshake()
	}
	return nil
}

// believe makes the client who the header says, if who sent it is trusted.
func (s *tcpSession) believe(h proxyproto.Header) {
	c := &s.ctx
	if !h.Known() {
		return
	}
	c.SetVar("proxy_protocol_addr", h.Source.Addr().String())
	if t := s.engine.Trusted; t == nil || t(c.Peer.Addr()) {
		c.Client, c.ClientPort = h.Source.Addr().String(), h.Source.Port()
	}
}

var errNoServerName = errors.New("no certificate for the name that the client asks for")

// handshake makes the client a TLS connection, with the certificate for the name
// that it asks for (apisix-runtime.md §7.1).
func (s *tcpSession) handshake() error {
	var name string
	t := tls.Server(s.tcp, &tls.Config{
		MinVersion: tls.VersionTLS12, // replaced by the certificate's own configuration
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			if name = strings.ToLower(strings.TrimSuffix(h.ServerName, ".")); name == "" {
				name = s.engine.FallbackSNI
			}
			var c *cert.Certificate
			if name != "" {
				c = s.engine.State.Current().Certificate(name)
			}
			if c == nil {
				return nil, errNoServerName
			}
			return c.Stream(), nil
		},
	})
	ctx, cancel := context.WithTimeout(s.gone, s.engine.HandshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	s.client, s.ctx.SNI = t, name
	return nil
}

// peek is StreamCtx.Peek.
func (s *tcpSession) peek(n int) ([]byte, error) {
	if n > maxPeek {
		return nil, errTooMuch
	}
	if len(s.first) >= n {
		return s.first[:n], nil
	}
	if err := s.tcp.SetReadDeadline(s.until); err != nil {
		return nil, err
	}
	for len(s.first) < n {
		var b [1 << 10]byte
		got, err := s.client.Read(b[:])
		s.first = append(s.first, b[:got]...)
		if err != nil && len(s.first) < n {
			return nil, err
		}
	}
	return s.first[:n], nil
}

// greet sends the node what comes before the client's next bytes.
func (s *tcpSession) greet() error {
	var b []byte
	if s.how.ProxyToUpstream {
		h := proxyproto.Header{Source: s.ctx.Peer, Destination: s.ctx.Server}
		if who, ok := plugin.ParseClient(s.ctx.Client); ok {
			h.Source = netip.AddrPortFrom(who.Addr(), s.ctx.ClientPort)
		}
		b = h.Append(b)
	}
	b = append(b, s.first...)
	up := s.upward()
	up.came(len(s.first))
	up.went(int64(len(s.first)))
	s.first = nil
	if len(b) == 0 {
		return nil
	}
	_, err := s.link.Write(b)
	return err
}

// join carries bytes both ways until both sides have ended, one of them fails or
// the session is silent for too long. The end of one direction is passed on. It
// returns what a client that did not leave by itself has to complain of.
func (s *tcpSession) join() *refusal {
	var wg sync.WaitGroup
	wg.Go(func() {
		if s.carry(s.link.Conn, s.client, s.upward()) != nil {
			s.end()
			return
		}
		closeWrite(s.link.Conn)
	})
	err := s.carry(s.client, s.link.Conn, s.downward())
	silent := s.expired(time.Now())
	if err != nil {
		s.end()
	} else {
		closeWrite(s.client)
		s.idle.Store(min(s.idle.Load(), int64(half)))
		s.touch()
	}
	wg.Wait()
	switch {
	case err == nil:
		return nil
	case silent:
		return &refusal{status: statusBadGateway, err: errIdle}
	case errors.Is(err, syscall.ECONNRESET) && s.sent.Load() == 0:
		return &refusal{status: statusBadGateway, err: errNode}
	}
	return nil
}

func closeWrite(c net.Conn) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // the other direction tells whether it is still there
	}
}

// patience is how long a refused client may take to begin.
const patience = 100 * time.Millisecond

// refuse ends a connection so that a client that has begun to send sees a reset:
// nobody took it. One that has not sees an end.
func refuse(nc net.Conn, begun bool) {
	t, ok := nc.(*net.TCPConn)
	if !ok || t.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	var b [1]byte
	if !begun {
		n, _ := t.Read(b[:])
		begun = n > 0
	}
	if begun {
		_ = t.SetLinger(0) // it is closed either way
	}
}
