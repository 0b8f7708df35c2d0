package contentcaching

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/cache"
	"weir/internal/plugin"
	"weir/internal/wire"
)

const (
	room     = 256 << 20        // bytes that all answers of the process take
	largest  = 2 << 20          // bytes of a body that is kept
	inactive = 10 * time.Minute // how long an answer is remembered that is not fresh any more (nginx)
)

// A store has the answers of all products. It outlives their configurations.
type store struct{ *cache.Cache[*response] }

func openStore(env plugin.Env) *store {
	return plugin.Lasting(env, name, func() *store { return &store{cache.New[*response](room, env.Now)} })
}

// A response is an answer that was kept. It is immutable but for being updated.
type response struct {
	status int
	fields [][2]string
	body   []byte
	came   time.Time
	aged   int64 // seconds, before it came

	fresh         time.Time // until when it is given without asking
	whileUpdating time.Time // until when it is given while another request asks
	onError       time.Time // until when it is given where the upstream fails

	untyped  bool // without a Content-Type
	etag     string
	modified time.Time // zero: it does not say

	// vary are the request's fields that choose among the answers for a key, lower
	// case and sorted. Under the key itself stands the answer that came last.
	vary []string

	whole *plugin.Reply // of the answer

	busy atomic.Bool // a request asks for another
}

// begin says that the request may ask for another answer, since nobody does.
func (r *response) begin() bool { return r.busy.CompareAndSwap(false, true) }

func (r *response) ended() { r.busy.Store(false) }

// find returns the answer for a request, or nil.
func (s *store) find(key []byte, h *wire.Header) *response {
	r, ok := s.Get(key)
	if !ok || len(r.vary) == 0 {
		return r
	}
	r, _ = s.Get(appendVariant(key, r.vary, h))
	return r
}

// keep stores an answer to a request whose fields chose it, as selected.
func (s *store) keep(key, variant []byte, r *response, now time.Time) {
	last := r.fresh
	for _, t := range [...]time.Time{r.whileUpdating, r.onError} {
		if t.After(last) {
			last = t
		}
	}
	size := len(r.body) + 256
	for _, f := range r.fields {
		size += len(f[0]) + len(f[1]) + 32
	}
	lasts := last.Sub(now) + inactive
	if variant == nil {
		s.Put(key, r, size, lasts)
		return
	}
	// The key leads to the variants; the body is the variant's own.
	s.Put(variant, r, size, lasts)
	s.Put(key, &response{vary: r.vary}, 64, 0)
}

// appendVariant appends to a key the fields of a request that choose.
func appendVariant(key []byte, vary []string, h *wire.Header) []byte {
	out := append(slices.Clip(key), 1)
	for _, name := range vary {
		out = append(append(out, name...), ':')
		for _, f := range h.Fields() {
			if !f.Dropped && wire.EqualFold(f.Name, name) {
				out = append(append(out, f.Value...), ',')
			}
		}
		out = append(out, 0)
	}
	return out
}

// dress gives the answer's head what depends on the time: how old it is
// (RFC 9111 §4.2.3). What the upstream has not said is not said for it.
func (r *response) dress(c *plugin.Ctx, now time.Time) {
	age := r.aged + max(int64(now.Sub(r.came)/time.Second), 0)
	var digits [20]byte
	c.Response.Header.Set("Age", c.Keep(strconv.AppendInt(digits[:0], age, 10)))
	if kind, _ := c.Response.Header.Get("Content-Type"); r.untyped && kind == "text/plain; charset=utf-8" {
		c.Response.Header.Del("Content-Type")
	}
}

// recorder makes what keeps an upstream's answer as it came, or nil if it is not to
// be kept.
func (p *policy) recorder(c *plugin.Ctx, v *visit, now time.Time) *recorder {
	status := original(c)
	head := received(&c.Response.Header)
	if head.length > largest {
		return nil
	}
	f, ok := freshness(&head, status, now)
	if !ok {
		return nil
	}
	if f.fresh.IsZero() {
		if !slices.Contains(p.statuses, status) {
			return nil
		}
		f.fresh = now.Add(p.valid)
	}
	r := &recorder{policy: p, key: v.key, length: head.length}
	r.made = &response{
		status: status, fields: head.fields, came: now, aged: head.age, fresh: f.fresh,
		whileUpdating: f.fresh.Add(f.whileUpdating), onError: f.fresh.Add(f.onError),
		untyped: !head.typed, etag: head.etag, modified: head.modified, vary: head.vary,
	}
	if len(head.vary) > 0 {
		r.variant = appendVariant(v.key, head.vary, &c.Request.Header)
	}
	return r
}

// A recorder keeps a body that passes.
type recorder struct {
	policy       *policy
	key, variant []byte
	made         *response
	length       int64 // announced; negative: it was not
	lost         bool  // it is not kept
}

// Size implements plugin.Sized.
func (r *recorder) Size(in int64) int64 { return in }

// Watches implements plugin.Witness.
func (r *recorder) Watches() bool { return true }

// Write implements plugin.BodyFilter.
func (r *recorder) Write(p []byte, last bool) []byte {
	switch {
	case r.lost:
	case len(r.made.body)+len(p) > largest:
		r.lost, r.made.body = true, nil
	default:
		r.made.body = append(r.made.body, p...)
	}
	if last && !r.lost {
		r.lost = true
		if r.length < 0 || r.length == int64(len(r.made.body)) {
			r.made.whole = &plugin.Reply{Status: r.made.status, Header: r.made.fields, Body: slices.Clip(append([]byte{}, r.made.body...))}
			r.made.body = r.made.whole.Body
			r.policy.store.keep(r.key, r.variant, r.made, r.made.came)
		}
	}
	return p
}

// instead gives a kept body in place of another.
type instead struct{ body []byte }

// Ended implements plugin.Ender.
func (i *instead) Ended() bool { return true }

// Size implements plugin.Sized.
func (i *instead) Size(int64) int64 { return int64(len(i.body)) }

// Write implements plugin.BodyFilter.
func (i *instead) Write(_ []byte, last bool) []byte {
	if !last {
		return nil
	}
	return i.body
}

// replace puts the answer's head in place of another. What policies have set stays.
func (r *response) replace(to *wire.Response) {
	h := &to.Header
	own := len(h.Fields()) - len(h.Added())
	for i := range own {
		h.Fields()[i].Dropped = true
	}
	to.Status, to.Reason = r.status, ""
	for _, f := range r.fields {
		if _, set := h.Get(f[0]); !set || strings.EqualFold(f[0], "Content-Type") {
			if strings.EqualFold(f[0], "Content-Type") {
				h.Del(f[0])
			}
			h.AddValid(f[0], f[1])
		}
	}
}
