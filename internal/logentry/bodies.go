package logentry

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"sync"
	"unsafe"

	"github.com/andybalholm/brotli"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// seen is what was seen of one request, and scratch space for its entry.
type seen struct {
	req      []byte
	reqMax   int
	hasReq   bool // the request's body is looked at
	reqHolds bool // include_req_body_expr holds
	resp     []byte
	respMax  int
	hasResp  bool // the response's body is looked at
	coding   string
	decoded  []byte

	pairs []pair
	text  []byte
}

var pool = sync.Pool{New: func() any { return new(seen) }}

// largest is how much memory is kept with a seen that nobody uses.
const largest = 64 << 10

// free gives s back.
func (s *seen) free() {
	clear(s.pairs)
	next := seen{pairs: s.pairs[:0], text: s.text[:0]}
	if cap(s.req) <= largest {
		next.req = s.req[:0]
	}
	if cap(s.resp) <= largest {
		next.resp = s.resp[:0]
	}
	*s = next
	pool.Put(s)
}

// of is what was seen of the request for e, made if it is new.
func (e *Entry) of(c *plugin.Ctx) *seen {
	if s, ok := c.State(e).(*seen); ok {
		return s
	}
	s := pool.Get().(*seen)
	c.SetState(e, s)
	return s
}

// take is of for the last time.
func (e *Entry) take(c *plugin.Ctx) *seen {
	s, ok := c.State(e).(*seen)
	if !ok {
		return pool.Get().(*seen)
	}
	c.SetState(e, nil)
	return s
}

// access asks to see the request's body, and reads the variables that come from
// it while it is there.
func (e *Entry) access(c *plugin.Ctx) *plugin.Reply {
	for _, v := range e.fromBody {
		_, _ = v.Value(c)
	}
	holds := e.bodies.IncludeReqBody && matches(e.reqIf, c)
	if c.Request.Length == 0 || !holds && !e.reqBodyInFormat {
		return nil
	}
	s := e.of(c)
	s.hasReq, s.reqHolds, s.reqMax = true, holds, e.bodies.MaxReqBodyBytes
	c.TapBody(s)
	return nil
}

// matches says that a condition holds; one that fails does not.
func matches(condition *expr.Expr, c *plugin.Ctx) bool {
	if condition == nil {
		return true
	}
	ok, err := condition.Match(c)
	return ok && err == nil
}

// See implements plugin.BodyTap.
func (s *seen) See(piece []byte) { s.req = appendUpTo(s.req, piece, s.reqMax) }

func appendUpTo(dst, piece []byte, limit int) []byte {
	return append(dst, piece[:min(len(piece), limit-len(dst))]...)
}

// tap lets the response's body pass and keeps its beginning.
func (e *Entry) tap(c *plugin.Ctx) plugin.BodyFilter {
	if !matches(e.respIf, c) {
		return nil
	}
	s := e.of(c)
	coding, _ := c.Response.Header.Get("Content-Encoding")
	s.hasResp, s.respMax, s.coding = true, e.bodies.MaxRespBodyBytes, strings.Clone(coding)
	return s
}

// Write implements plugin.BodyFilter.
func (s *seen) Write(chunk []byte, _ bool) []byte {
	s.resp = appendUpTo(s.resp, chunk, s.respMax)
	return chunk
}

// Size implements plugin.Sized.
func (s *seen) Size(in int64) int64 { return in }

// response is the beginning of the response's body, decoded if the upstream has
// compressed it.
func (s *seen) response() []byte {
	if s.coding == "" || len(s.resp) == 0 {
		return s.resp
	}
	if s.decoded == nil {
		s.decoded = decode(s.coding, s.resp, s.respMax)
	}
	return s.decoded
}

// decode returns at most limit bytes of what body, perhaps cut off, decodes to;
// body itself if it does not.
func decode(coding string, body []byte, limit int) []byte {
	var r io.Reader
	var err error
	switch in := bytes.NewReader(body); strings.ToLower(coding) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(in)
	case "deflate":
		r, err = zlib.NewReader(in)
	case "br":
		r = brotli.NewReader(in)
	default:
		return body
	}
	if err != nil {
		return body
	}
	out, _ := io.ReadAll(io.LimitReader(r, int64(limit))) // as far as it goes
	if len(out) == 0 {
		return body
	}
	return out
}

// view is b as a string, for as long as b is not written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
