// Package nethttp makes the engine's exchanges of requests that servers for
// net/http have read: those of HTTP/2 and HTTP/3.
package nethttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/engine"
	"weir/internal/wire"
)

// Serve answers one request of c, which came in the given protocol. It panics
// with http.ErrAbortHandler if the answer was cut.
func Serve(c *engine.Connection, proto wire.Proto, w http.ResponseWriter, r *http.Request) {
	t := &stream{w: w, r: r}
	x := c.Exchange(t, upload(r))
	if x == nil {
		panic(http.ErrAbortHandler)
	}
	t.x = x
	fill(x.Request(), proto, r)
	left := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() {
		x.Abort()
		close(left)
	})
	defer func() {
		if !stop() {
			<-left // Abort must not meet the next request
		}
		c.Done(x)
	}()
	if whole := x.Serve(); !whole {
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// fill makes the engine's request of r.
func fill(q *wire.Request, proto wire.Proto, r *http.Request) {
	q.Method, q.Target, q.Host = r.Method, r.RequestURI, r.Host
	q.Proto, q.Length = proto, r.ContentLength
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
	copyFields(h, "", &r.Header)
	if r.Status >= 200 {
		length := r.Length
		if last {
			length = int64(len(body))
		}
		if _, typed := h["Content-Type"]; !typed {
			h["Content-Type"] = nil // nobody has to guess one
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

// CutRead implements engine.Cutter.
func (t *stream) CutRead() {
	_ = http.NewResponseController(t.w).SetReadDeadline(past) // what cannot be cut ends with its connection
}

// CutWrite implements engine.Cutter.
func (t *stream) CutWrite() {
	_ = http.NewResponseController(t.w).SetWriteDeadline(past) // as above
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// trailers announces what follows the body.
func (t *stream) trailers() {
	trailer := t.x.Trailer()
	if trailer == nil {
		return
	}
	copyFields(t.w.Header(), http.TrailerPrefix, trailer)
}

// copyFields adds the fields of from, with a prefix before their names. They are
// copied: servers may encode them after the exchange has ended, and keep them in
// the connection's table of fields (RFC 7541 §2.3.2), where what changes would
// become another answer's field.
func copyFields(to http.Header, prefix string, from *wire.Header) {
	fields := from.Fields()
	size, count := 0, 0
	for i := range fields {
		if f := &fields[i]; !f.Dropped {
			size += len(prefix) + len(f.Name) + len(f.Value)
			count++
		}
	}
	var text strings.Builder
	text.Grow(size)
	write := func(parts ...string) string {
		at := text.Len()
		for _, p := range parts {
			text.WriteString(p)
		}
		return text.String()[at:]
	}
	values := make([]string, 0, count)
	for i := range fields {
		f := &fields[i]
		if f.Dropped {
			continue
		}
		name := write(prefix, http.CanonicalHeaderKey(f.Name))
		value := write(f.Value)
		if had, ok := to[name]; ok {
			to[name] = append(had, value)
			continue
		}
		values = append(values, value)
		to[name] = values[len(values)-1 : len(values) : len(values)]
	}
}
