// Package h2 speaks HTTP/2 with clients. x/net's server does the protocol and
// its flow control and bounds (RFC 9113); requests become the engine's own.
package h2

//lint:file-ignore SA1019 net/http serves listeners; the engine has connections, accepted and begun

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"weir/internal/engine"
	"weir/internal/engine/nethttp"
	"weir/internal/wire"
)

// Config bounds what a client may do.
type Config struct {
	IdleTimeout time.Duration // a connection without requests ends after it
	HeadLimit   int           // bytes of a request's header list
	Streams     uint32        // concurrent requests of a connection; 0: 128, as nginx

	// SendTimeout is how long a connection may take nothing that is sent.
	SendTimeout time.Duration

	Log *slog.Logger // of what clients do wrong; nil: none
}

// streams is nginx's http2_max_concurrent_streams.
const streams = 128

// A Server implements engine.Protocol.
type Server struct {
	base *http.Server // lives for its shutdown, which reaches the connections
	h2   *http2.Server
}

// New makes a Server.
func New(cfg Config) (*Server, error) {
	s := &Server{
		base: &http.Server{IdleTimeout: cfg.IdleTimeout, MaxHeaderBytes: cfg.HeadLimit},
		h2:   &http2.Server{IdleTimeout: cfg.IdleTimeout, MaxConcurrentStreams: cfg.Streams, WriteByteTimeout: cfg.SendTimeout},
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s.base.ErrorLog = slog.NewLogLogger(cfg.Log.Handler(), slog.LevelInfo)
	if s.h2.MaxConcurrentStreams == 0 {
		s.h2.MaxConcurrentStreams = streams
	}
	return s, http2.ConfigureServer(s.base, s.h2)
}

// Serve implements engine.Protocol.
func (s *Server) Serve(c *engine.Connection) {
	s.h2.ServeConn(c, &http2.ServeConnOpts{
		BaseConfig: s.base,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			nethttp.Serve(c, wire.HTTP2, w, r)
		}),
	})
}

// Drain implements engine.Protocol: every connection gets a GOAWAY.
func (s *Server) Drain() {
	// The base server has no listener: its shutdown only tells the connections.
	_ = s.base.Shutdown(context.Background())
}
