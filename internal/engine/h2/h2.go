// Package h2 speaks HTTP/2 with clients. x/net's server does the protocol and
// its flow control and bounds (RFC 9113); requests become the engine's own.
package h2

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"weir/internal/engine"
	"weir/internal/wire"
)

// Config bounds what a client may do.
type Config struct {
	IdleTimeout time.Duration // a connection without requests ends after it
	HeadLimit   int           // bytes of a request's header list
	Streams     uint32        // concurrent requests of a connection; 0: 128, as nginx
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
		h2:   &http2.Server{IdleTimeout: cfg.IdleTimeout, MaxConcurrentStreams: cfg.Streams},
	}
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
			serve(c, w, r)
		}),
	})
}

// Drain implements engine.Protocol: every connection gets a GOAWAY.
func (s *Server) Drain() {
	// The base server has no listener: its shutdown only tells the connections.
	_ = s.base.Shutdown(context.Background())
}

// serve answers one request.
func serve(c *engine.Connection, w http.ResponseWriter, r *http.Request) {
	t := &stream{w: w, r: r}
	x := c.Exchange(t, upload(r))
	t.x = x
	fill(x.Request(), r)
	left := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() {
		x.Abort()
		close(left)
	})
	whole := x.Serve()
	if !stop() {
		<-left // Abort must not meet the next request
	}
	c.Done(x)
	if !whole {
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// fill makes the engine's request of r.
func fill(q *wire.Request, r *http.Request) {
	q.Method, q.Target, q.Host = r.Method, r.RequestURI, r.Host
	q.Proto, q.Length = wire.HTTP2, r.ContentLength
	if q.Length < 0 {
		q.Length = wire.Chunked
	}
	q.Trailers = len(r.Trailer) > 0
	for name, values := range r.Header {
		for _, v := range values {
			q.Header.Receive(name, v)
		}
	}
}

// upload is the body of r.
func upload(r *http.Request) engine.Upload {
	trailer := func() *wire.Header {
		h := new(wire.Header)
		for name, values := range r.Trailer {
			for _, v := range values {
				h.Add(name, v)
			}
		}
		return h
	}
	return engine.NewUpload(r.Body, trailer, func() { r.Body.Close() })
}

// A stream is the client's side of one exchange.
type stream struct {
	w http.ResponseWriter
	r *http.Request
	x *engine.Exchange
}

// WriteHead implements engine.Stream.
func (t *stream) WriteHead(r *wire.Response, body []byte, last bool) error {
	h := t.w.Header()
	clear(h)
	fields := r.Header.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped {
			name := http.CanonicalHeaderKey(f.Name)
			h[name] = append(h[name], f.Value)
		}
	}
	if r.Status >= 200 {
		length := r.Length
		if last {
			length = int64(len(body))
		}
		if length >= 0 && t.r.Method != http.MethodHead && r.Status != 204 && r.Status != 304 {
			h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
		}
	}
	t.w.WriteHeader(r.Status)
	if r.Status < 200 {
		clear(h)
		return nil
	}
	return t.Write(body, last)
}

// Write implements engine.Stream. What comes is sent on at once: streams of
// events pass event by event.
func (t *stream) Write(p []byte, last bool) error {
	if len(p) > 0 && t.r.Method != http.MethodHead {
		n, err := t.w.Write(p)
		t.x.Wrote(n)
		if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			return err
		}
	}
	if last {
		t.trailers()
		return nil
	}
	return http.NewResponseController(t.w).Flush()
}

// trailers announces what follows the body.
func (t *stream) trailers() {
	trailer := t.x.Trailer()
	if trailer == nil {
		return
	}
	h := t.w.Header()
	for _, f := range trailer.Fields() {
		if !f.Dropped {
			h.Add(http.TrailerPrefix+f.Name, f.Value)
		}
	}
}
