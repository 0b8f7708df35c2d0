package plugin

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/wire"
)

// A Compression is what the configurations of plugins that compress responses
// have in common: which ones are worth it.
type Compression struct {
	Types       MediaTypes `json:"types"        schema:"default=[\"text/html\"]"   doc:"Media types of responses that are compressed; \"*\": all."`
	MinLength   int64      `json:"min_length"   schema:"min=1,default=20"          doc:"Shortest body in bytes that is compressed. One of unknown length always is."`
	HTTPVersion float64    `json:"http_version" schema:"enum=1.1|1.0,default=1.1"  doc:"Oldest version of HTTP for which responses are compressed."`
	Vary        bool       `json:"vary"         doc:"Add Vary: Accept-Encoding."`
}

// MediaTypes are the names of media types; nil: all.
type MediaTypes []string

// JSONSchema implements schema.Describer.
func (MediaTypes) JSONSchema() []byte {
	return []byte(`{"anyOf":[{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},{"enum":["*"]}]}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *MediaTypes) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*m = nil
		return nil
	}
	return json.Unmarshal(b, (*[]string)(m))
}

// Suits says whether the response is one of those that are compressed, and not
// encoded yet.
func (k *Compression) Suits(c *Ctx) bool {
	r := c.Response
	media, ok := r.Header.Get("Content-Type")
	if !ok || r.Length >= 0 && r.Length < k.MinLength || c.Request.Proto == wire.HTTP10 && k.HTTPVersion > 1 {
		return false
	}
	if _, encoded := r.Header.Get("Content-Encoding"); encoded || c.Request.Method == "HEAD" || r.Status == 204 || r.Status == 206 || r.Status == 304 {
		return false
	}
	media, _, _ = strings.Cut(media, ";")
	return k.Types == nil || slices.Contains(k.Types, media)
}

// AcceptsCoding says whether the client takes a content coding (RFC 9110
// §12.5.3). any: "*" stands for it, too, where it is not named.
func (c *Ctx) AcceptsCoding(coding string, any bool) bool {
	list, _ := c.Header("Accept-Encoding")
	star := false
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		name, params, _ := strings.Cut(item, ";")
		switch name = strings.Trim(name, " \t"); {
		case wire.EqualFold(name, coding):
			return weight(params) > 0
		case name == "*":
			star = any && weight(params) > 0
		}
	}
	return star
}

// weight is the q of an item, 1 if there is none.
func weight(params string) float64 {
	q, ok := strings.CutPrefix(strings.TrimLeft(params, " \t"), "q=")
	if !ok {
		return 1
	}
	w, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
	if err != nil {
		return 0
	}
	return w
}

// BodyChanged drops the headers of the response that were true of another body.
func (c *Ctx) BodyChanged() {
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Last-Modified", "ETag"} {
		c.Response.Header.Del(name)
	}
}

// Encoded says in the response's header that its body is encoded: a strong entity
// tag becomes a weak one (RFC 9110 §8.8.1), ranges are not of the encoded body.
func (c *Ctx) Encoded(coding string) {
	h := &c.Response.Header
	h.Set("Content-Encoding", coding)
	h.Del("Accept-Ranges")
	tag, ok := h.Get("ETag")
	switch {
	case !ok, strings.HasPrefix(tag, `W/"`):
	case len(tag) > 1 && tag[0] == '"' && strings.IndexByte(tag[1:], '"') == len(tag)-2:
		from := len(c.scratch)
		c.scratch = append(append(c.scratch, "W/"...), tag...)
		h.Set("ETag", view(c.scratch[from:]))
	default:
		h.Del("ETag")
	}
}

// An Encoder compresses what is written to it; it can be used again.
type Encoder interface {
	io.WriteCloser
	Flush() error
	Reset(to io.Writer)
}

// Encoders keep encoders, which are large, for further responses.
type Encoders struct{ pool sync.Pool }

// NewEncoders makes Encoders of what create returns.
func NewEncoders(create func() Encoder) *Encoders {
	e := new(Encoders)
	e.pool.New = func() any { return &encoding{encoder: create(), home: e} }
	return e
}

// Open returns a filter that encodes one response. What is written is sent at
// once if the length of the body is not known: it may be a stream that somebody
// waits for.
func (e *Encoders) Open(c *Ctx) BodyFilter {
	f := e.pool.Get().(*encoding)
	f.flush = c.Response.Length < 0
	f.out.Reset()
	f.encoder.Reset(&f.out)
	return f
}

// An encoding encodes one response at a time.
type encoding struct {
	encoder Encoder
	out     bytes.Buffer
	flush   bool
	home    *Encoders
}

// Write implements BodyFilter. Writing to memory does not fail.
func (f *encoding) Write(chunk []byte, last bool) []byte {
	f.out.Reset()
	if len(chunk) > 0 {
		f.encoder.Write(chunk)
	}
	switch {
	case last:
		f.encoder.Close()
	case f.flush && len(chunk) > 0:
		f.encoder.Flush()
	}
	return f.out.Bytes()
}

// Close gives the encoder back.
func (f *encoding) Close() {
	const kept = 256 << 10
	if f.out.Cap() <= kept {
		f.home.pool.Put(f)
	}
}
