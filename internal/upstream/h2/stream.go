package h2

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"weir/internal/wire"
)

type body = io.ReadCloser

type streamKey struct{}

// A Request is what a Stream sends. Its strings are copied.
type Request struct {
	Method, Scheme, Authority, Target string

	Header *wire.Header // those that are not dropped
	Extra  []byte       // complete lines, each with CRLF, that follow them

	// Body is read by another goroutine until it ends, fails or is closed; nil:
	// none. Length is its number of bytes, or wire.Chunked.
	Body   io.ReadCloser
	Length int64

	// Trailer returns the fields that follow the body, after its end; nil: none.
	Trailer func() *wire.Header
}

// A Stream is one request on a connection, and its response.
type Stream struct {
	conn   *Conn
	ctx    context.Context
	cancel context.CancelFunc
	sent   bool // the reservation is used up

	mu     sync.Mutex
	closed bool
	body   io.ReadCloser // of the response; nil: not here yet
	res    *http.Response
}

// Stream begins a request that Reserve made room for. It must be closed.
func (c *Conn) Stream() *Stream {
	s := &Stream{conn: c}
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx, s.cancel = context.WithValue(ctx, streamKey{}, s), cancel
	return s
}

// RoundTrip sends q and reads the head of the response into resp. It returns
// ErrUnprocessed if the request can be sent again on another connection.
// Interim responses are skipped.
func (s *Stream) RoundTrip(q *Request, resp *wire.Response) error {
	r := (&http.Request{
		Method: strings.Clone(q.Method),
		URL:    address(q.Scheme, q.Authority, q.Target),
		Host:   strings.Clone(q.Authority),
		Header: header(q),
		Proto:  "HTTP/2.0", ProtoMajor: 2,
	}).WithContext(s.ctx)
	if q.Body != nil {
		r.Body, r.ContentLength, r.GetBody = q.Body, q.Length, refuse
		if q.Trailer != nil {
			r.Trailer = http.Header{}
			r.Body = &trailed{q.Body, q.Trailer, r.Trailer}
		}
	}
	//lint:ignore SA1019 see conn.go
	res, err := s.conn.t.RoundTrip(r)
	if err != nil {
		return err
	}
	if !s.keep(res) {
		res.Body.Close()
		return context.Canceled
	}
	receive(resp, res)
	if q.Method == http.MethodHead {
		resp.Length = 0
	}
	return nil
}

// keep makes res the Stream's, unless that was closed meanwhile.
func (s *Stream) keep(res *http.Response) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.res, s.body = res, res.Body
	return true
}

// receive makes a wire.Response of res.
func receive(resp *wire.Response, res *http.Response) {
	resp.Reset()
	resp.Status, resp.Reason, resp.Proto = res.StatusCode, wire.Reason(res.StatusCode), wire.HTTP2
	for name, values := range res.Header {
		for _, v := range values {
			resp.Header.Receive(name, v)
		}
	}
	if resp.Length = res.ContentLength; resp.Length < 0 {
		resp.Length = wire.Chunked
	}
}

// Read reads the response's body.
func (s *Stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// Trailer are the fields after the response's body, once Read has returned
// io.EOF; nil: none.
func (s *Stream) Trailer() *wire.Header {
	if len(s.res.Trailer) == 0 {
		return nil
	}
	h := new(wire.Header)
	for name, values := range s.res.Trailer {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}

// Close ends the request, whatever it is at, and makes RoundTrip and Read
// return. It may be called from any goroutine, and again.
func (s *Stream) Close() {
	s.mu.Lock()
	body := s.body
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	if body != nil {
		body.Close()
	}
}

// Release gives a reservation back that was not used. The Stream is closed.
func (s *Stream) Release() {
	if s.sent {
		return
	}
	s.sent = true
	r := (&http.Request{Method: http.MethodGet, URL: address("http", "none", "/"), Header: http.Header{}}).WithContext(s.ctx)
	if res, err := s.conn.cc.RoundTrip(r); err == nil { // it fails, since the context has ended
		res.Body.Close()
	}
}

// address is the URL whose target x/net sends as it is.
func address(scheme, authority, target string) *url.URL {
	u := &url.URL{Scheme: scheme, Host: strings.Clone(authority), Opaque: strings.Clone(target)}
	if strings.HasPrefix(target, "//") {
		u.Opaque = scheme + "://" + u.Host + target
	}
	return u
}

// header copies the fields of q: x/net keeps what it has sent in a table of the
// connection (RFC 7541), far longer than a request's memory lasts.
func header(q *Request) http.Header {
	fields := q.Header.Fields()
	size := len(q.Extra)
	for i := range fields {
		size += len(fields[i].Name) + len(fields[i].Value)
	}
	var all strings.Builder
	all.Grow(size)
	keep := func(s string) string {
		from := all.Len()
		all.WriteString(s)
		return all.String()[from:]
	}
	h := make(http.Header, len(fields)+4)
	add := func(name, value string) { h[name] = append(h[name], value) }
	for i := range fields {
		if f := &fields[i]; !f.Dropped {
			add(keep(f.Name), keep(f.Value))
		}
	}
	for lines := keep(string(q.Extra)); lines != ""; {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		if name, value, ok := strings.Cut(line, ": "); ok {
			add(name, value)
		}
	}
	h["Te"] = []string{"trailers"} // the gateway passes them on
	if !has(h, "User-Agent") {
		h["User-Agent"] = []string{""} // x/net would add its own
	}
	return h
}

func has(h http.Header, name string) bool {
	for n := range h {
		if wire.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// trailed is a body with trailers, which are announced by being there and known
// at its end.
type trailed struct {
	io.ReadCloser
	fields func() *wire.Header
	to     http.Header
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != io.EOF {
		return n, err
	}
	if h := t.fields(); h != nil {
		for _, f := range h.Fields() {
			if !f.Dropped {
				name := strings.Clone(f.Name)
				t.to[name] = append(t.to[name], strings.Clone(f.Value))
			}
		}
	}
	return n, err
}
