package responserewrite

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unsafe"

	"github.com/andybalholm/brotli"
)

// fixed is a body in place of another.
type fixed struct {
	body []byte
	sent bool
}

var fixedPool = sync.Pool{New: func() any { return new(fixed) }}

func newFixed(body []byte) *fixed {
	f := fixedPool.Get().(*fixed)
	f.body, f.sent = body, false
	return f
}

// Write implements plugin.BodyFilter. The body does not wait for the one whose
// place it takes.
func (f *fixed) Write([]byte, bool) []byte {
	if f.sent {
		return nil
	}
	f.sent = true
	return f.body
}

// Close makes f ready for another response.
func (f *fixed) Close() { fixedPool.Put(f) }

// replacing replaces text in one body, which it has to have whole.
type replacing struct {
	*rewriter
	coding string // Content-Encoding
	body   []byte
	done   bool // all of it was sent
}

// Write implements plugin.BodyFilter.
func (f *replacing) Write(chunk []byte, last bool) []byte {
	if f.done {
		return nil
	}
	room := int(min(f.maxSize-int64(len(f.body)), int64(len(chunk))))
	f.body = append(f.body, chunk[:room]...)
	if room < len(chunk) {
		f.env.Log.Warn("response-rewrite: the body is cut to max_resp_body_size", "owner", f.env.Owner)
	}
	if f.done = last || room < len(chunk); !f.done {
		return nil
	}
	out := f.replace()
	f.body = nil
	return out
}

// replace is what takes the place of the body; where it cannot be read, the body
// itself, as APISIX sends it.
func (f *replacing) replace() []byte {
	body := f.body
	if f.coding != "" {
		plain, err := decompress(f.coding, body, f.maxSize)
		if err != nil {
			f.env.Log.Error("response-rewrite: filters may not work as expected", "owner", f.env.Owner, "err", err)
			return body
		}
		body = plain
	}
	for i := range f.filters {
		re := &f.filters[i]
		out, _, err := re.pattern.Replace(nil, text(body), re.with, re.all)
		if err != nil {
			f.env.Log.Error("response-rewrite: a regex was not decided in time", "owner", f.env.Owner, "regex", re.source, "err", err)
			continue
		}
		body = out
	}
	return body
}

// decompress is what body is without its content coding, at most limit bytes of
// it.
func decompress(coding string, body []byte, limit int64) ([]byte, error) {
	var r io.Reader
	switch strings.ToLower(coding) {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("inflate gzip err: %w", err)
		}
		r = z
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	default:
		return nil, fmt.Errorf("unsupported compression encoding type: %s", strings.Clone(coding))
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit))
	if err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && int64(len(body)) == limit) {
		return nil, fmt.Errorf("%s decode err: %w", coding, err)
	}
	return plain, nil
}

// text is b as a string, for as long as b is not written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
