// Package h3 speaks HTTP/3 with clients. quic-go does QUIC and the protocol
// (RFC 9000, RFC 9114); requests become the engine's own.
package h3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"weir/internal/engine"
	"weir/internal/engine/nethttp"
	"weir/internal/wire"
)

// Config bounds what a client may do.
type Config struct {
	IdleTimeout      time.Duration // a connection without requests ends after it
	HandshakeTimeout time.Duration // 0: 10 s
	HeadLimit        int           // bytes of a request's header list
	Streams          int64         // concurrent requests of a connection; 0: 128, as for HTTP/2
}

// streams is the default of Config.Streams.
const streams = 128

// partingTime is how long a connection stays when it is to end and has no
// requests: what was sent last must arrive, and the client may end it itself.
const partingTime = time.Second

// A Server implements engine.PacketProtocol.
type Server struct {
	cfg    Config
	http   *http3.Server
	accept context.Context // ends with Drain
	drain  context.CancelFunc

	mu       sync.Mutex
	draining bool
	loops    sync.WaitGroup // that accept
	starting sync.WaitGroup // connections that http does not know yet
	shutdown sync.WaitGroup // of http
}

// New makes a Server.
func New(cfg Config) *Server {
	if cfg.Streams == 0 {
		cfg.Streams = streams
	}
	s := &Server{cfg: cfg}
	s.accept, s.drain = context.WithCancel(context.Background())
	s.http = &http3.Server{
		Handler: http.HandlerFunc(serve), MaxHeaderBytes: cfg.HeadLimit, IdleTimeout: cfg.IdleTimeout,
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context {
			if c, _ := ctx.Value(clientKey{}).(*client); c != nil {
				c.started()
			}
			return ctx
		},
	}
	return s
}

type clientKey struct{}

// Serve implements engine.PacketProtocol.
func (s *Server) Serve(e *engine.Engine, pc net.PacketConn) error {
	defer pc.Close()
	t := &quic.Transport{
		Conn: pc,
		ConnContext: func(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
			leave, err := e.Admit(from.RemoteAddr)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, leave)
			// The client is told from others from its first packet on.
			return context.WithValue(ctx, clientKey{}, &client{handshake: e.NewHandshake()}), nil
		},
	}
	defer t.Close()
	l, err := t.Listen(&tls.Config{GetConfigForClient: choose}, &quic.Config{
		HandshakeIdleTimeout:  s.cfg.HandshakeTimeout,
		MaxIdleTimeout:        s.cfg.IdleTimeout,
		MaxIncomingStreams:    s.cfg.Streams,
		MaxIncomingUniStreams: 8, // three are in use (RFC 9114 §6.2)
	})
	if err != nil {
		return fmt.Errorf("HTTP/3: %w", err)
	}
	var conns sync.WaitGroup
	defer s.shutdown.Wait()
	defer conns.Wait()
	if !s.enter() {
		return l.Close()
	}
	defer s.loops.Done()
	for {
		qc, err := l.Accept(s.accept)
		switch {
		case s.accept.Err() != nil:
			return l.Close()
		case err != nil:
			return fmt.Errorf("HTTP/3: %w", err)
		}
		s.starting.Add(1)
		conns.Go(func() { s.serveConn(e, qc) })
	}
}

// enter counts one that accepts; false: it is too late.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.loops.Add(1)
	}
	return !s.draining
}

// choose finds the certificate for the name that a client asks for.
func choose(h *tls.ClientHelloInfo) (*tls.Config, error) {
	c, _ := h.Context().Value(clientKey{}).(*client)
	if c == nil {
		return nil, errors.New("a handshake of nobody")
	}
	found, err := c.handshake.Choose(h)
	if err != nil {
		return nil, err
	}
	return found.QUIC(), nil
}

// A client is one connection.
type client struct {
	handshake *engine.Handshake
	conn      *engine.Connection // once the handshake is done
	active    atomic.Int64       // requests
	used      atomic.Int64       // requests that have begun
	started   func()             // http knows the connection
}

func (s *Server) serveConn(e *engine.Engine, qc *quic.Conn) {
	c, _ := qc.Context().Value(clientKey{}).(*client)
	end := func() { qc.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }
	c.conn = e.Open(qc.RemoteAddr(), qc.LocalAddr(), c.handshake, qc.ConnectionState().TLS, end)
	defer c.conn.Release()
	c.started = sync.OnceFunc(s.starting.Done)
	defer c.started()
	var parting sync.WaitGroup
	defer parting.Wait()
	defer end()
	parting.Go(func() { s.part(c, qc, end) })
	// Its error is the client's.
	_ = s.http.ServeQUICConn(qc)
}

// part ends a connection after Drain, when its requests are answered.
func (s *Server) part(c *client, qc *quic.Conn, end func()) {
	select {
	case <-s.accept.Done():
	case <-qc.Context().Done():
		return
	}
	tick := time.NewTicker(partingTime)
	defer tick.Stop()
	for last := int64(-1); ; {
		used := c.used.Load()
		if c.active.Load() == 0 && used == last {
			end()
			return
		}
		if last = used; c.active.Load() > 0 {
			last = -1
		}
		select {
		case <-tick.C:
		case <-qc.Context().Done():
			return
		}
	}
}

func serve(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(clientKey{}).(*client)
	c.used.Add(1)
	c.active.Add(1)
	defer c.active.Add(-1)
	nethttp.Serve(c.conn, wire.HTTP3, w, r)
}

// Drain implements engine.PacketProtocol: every connection gets a GOAWAY.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	s.draining = true
	defer s.drain()
	s.shutdown.Go(func() {
		// http must know all connections by now: it counts them carelessly.
		s.loops.Wait()
		s.starting.Wait()
		// It waits for the connections, as whoever calls Drain does.
		_ = s.http.Shutdown(context.Background())
	})
}
