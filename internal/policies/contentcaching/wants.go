package contentcaching

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// Wants are what a client asks of an answer that may be kept: that it has changed,
// or a part of it.
type wants struct {
	any       bool // the request has a field of these
	noneMatch string
	since     time.Time
	ranges    string
	ifRange   string
}

// wantsOf reads them; ok is false if the request had better go as it is.
func wantsOf(h *wire.Header) (w wants, ok bool) {
	for _, name := range [...]string{"If-Match", "If-Unmodified-Since"} {
		if _, there := h.Get(name); there {
			return w, false
		}
	}
	fields := h.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Dropped || len(f.Name) < len("Range") || f.Name[0]|0x20 != 'i' && f.Name[0]|0x20 != 'r' {
			continue
		}
		found := true
		switch {
		case wire.EqualFold(f.Name, "If-None-Match"):
			if w.noneMatch != "" {
				w.noneMatch += ","
			}
			w.noneMatch += f.Value
		case wire.EqualFold(f.Name, "If-Modified-Since"):
			w.since, _ = http.ParseTime(f.Value)
		case wire.EqualFold(f.Name, "Range"):
			w.ranges = f.Value
		case wire.EqualFold(f.Name, "If-Range"):
			w.ifRange = f.Value
		default:
			found = false
		}
		w.any = w.any || found
	}
	return w, true
}

// clear removes them from a request.
func (w *wants) clear(h *wire.Header) {
	if !w.any {
		return
	}
	for _, name := range [...]string{"If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
		h.Del(name)
	}
}

// unchanged says that the client has the answer already (RFC 9110 §13).
func (w *wants) unchanged(r *response) bool {
	switch {
	case r.status != 200:
		return false
	case w.noneMatch != "":
		return matches(w.noneMatch, r.etag)
	}
	return !w.since.IsZero() && !r.modified.IsZero() && !r.modified.After(w.since)
}

// matches compares entity tags weakly (RFC 9110 §8.8.3.2).
func matches(list, tag string) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	tag = strings.TrimPrefix(tag, "W/")
	for one := range strings.SplitSeq(list, ",") {
		if tag != "" && strings.TrimPrefix(strings.TrimSpace(one), "W/") == tag {
			return true
		}
	}
	return false
}

// part is the one range of a body that the client wants; ok is false if it gets
// all of it.
func (w *wants) part(r *response) (from, to int64, ok bool) {
	spec, has := strings.CutPrefix(w.ranges, "bytes=")
	if !has || r.status != 200 || strings.Contains(spec, ",") || !w.sameAs(r) {
		return 0, 0, false
	}
	size := int64(len(r.body))
	first, last, has := strings.Cut(strings.TrimSpace(spec), "-")
	if !has {
		return 0, 0, false
	}
	if first == "" { // the last so many bytes
		n := whole(last)
		if n <= 0 || size == 0 {
			return 0, 0, false
		}
		return max(size-n, 0), size, true
	}
	if from = whole(first); from < 0 || from >= size {
		return 0, 0, false
	}
	to = size
	if last != "" {
		n := whole(last)
		if n < from {
			return 0, 0, false
		}
		to = min(n+1, size)
	}
	return from, to, true
}

// sameAs says that the answer is the one of which the client has a part
// (RFC 9110 §13.1.5).
func (w *wants) sameAs(r *response) bool {
	if w.ifRange == "" {
		return true
	}
	if strings.HasPrefix(w.ifRange, `"`) {
		return w.ifRange == r.etag
	}
	at, err := http.ParseTime(w.ifRange)
	return err == nil && !r.modified.IsZero() && at.Equal(r.modified)
}

// reply is what the client gets of the answer.
func (r *response) reply(w *wants, method string) *plugin.Reply {
	if w.any {
		if w.unchanged(r) {
			return &plugin.Reply{Status: 304, Header: r.without("Content-Type"), Body: []byte{}}
		}
		if from, to, ok := w.part(r); ok && method == "GET" {
			size := strconv.Itoa(len(r.body))
			header := append(r.without(""), [2]string{"Content-Range", fmt.Sprintf("bytes %d-%d/%s", from, to-1, size)})
			return &plugin.Reply{Status: 206, Header: header, Body: r.body[from:to]}
		}
	}
	return r.whole
}

func (r *response) without(name string) [][2]string {
	out := make([][2]string, 0, len(r.fields)+1)
	for _, f := range r.fields {
		if !strings.EqualFold(f[0], name) {
			out = append(out, f)
		}
	}
	return out
}
