package router

import "weir/internal/plugin"

// A Reason says why a candidate is or is not the route of a request.
type Reason uint8

// The reasons, in the order in which they are looked at.
const (
	Chosen    Reason = iota
	Method           // the method is not among the route's
	Host             // the host is not among the route's
	Path             // the rest of the path is not as the pattern says
	Predicate        // the route's further predicate does not hold
)

// A Candidate is a pattern of a route whose beginning and host suit a request.
type Candidate[V any] struct {
	Route  *Route[V]
	Path   string // the pattern
	Host   string // the pattern that it was found by; empty: by none
	Reason Reason
}

// Explain visits the candidates for a request in the order in which Match asks
// them, up to the chosen one or until visit returns false.
func (r *Router[V]) Explain(q Request, c *plugin.Ctx, visit func(Candidate[V]) bool) {
	var buf [hostSize]byte
	h := hostName{port: lower(q.Host, buf[:])}
	h.bare = bareHost(h.port)
	l := lookup{path: q.Path, method: method(q.Method), ctx: c}
	r.tables(&h, func(t *table[V]) (done bool) {
		return t.lists(q.Path, func(list []*entry[V]) bool {
			for _, e := range list {
				reason := e.reason(&l, &h)
				if !visit(Candidate[V]{e.route, e.path, t.host, reason}) || reason == Chosen {
					return true
				}
			}
			return false
		})
	})
}

// tables visits the tables that find goes through, until visit returns true.
func (r *Router[V]) tables(h *hostName, visit func(*table[V]) bool) {
	for _, in := range [...]struct {
		hosts *hosts[V]
		name  string
	}{{&r.ported, h.port}, {&r.plain, h.bare}} {
		if t, ok := in.hosts.exact.Get(in.name); ok && visit(t) {
			return
		}
	}
	for _, in := range [...]struct {
		hosts *hosts[V]
		name  string
	}{{&r.ported, h.port}, {&r.plain, h.bare}} {
		var buf [hostSize]byte
		if in.hosts.suffix.up(reverse(in.name, buf[:]), visit) {
			return
		}
	}
	visit(&r.any)
}

// lists visits the entries that match goes through, until visit returns true.
func (t *table[V]) lists(path string, visit func([]*entry[V]) bool) bool {
	if p, ok := t.exact.Get(path); ok && visit(p.list()) {
		return true
	}
	return t.prefix.up(path, func(p places[V]) bool { return visit(p.list()) })
}

// reason is what admits finds.
func (e *entry[V]) reason(l *lookup, h *hostName) Reason {
	switch {
	case e.methods&l.method == 0:
		return Method
	case len(e.hosts) > 0 && e.host(h) < 0:
		return Host
	case e.check != nil && !e.check.matches(l.path):
		return Path
	case e.route.Match != nil && !e.route.Match(l.ctx):
		return Predicate
	}
	return Chosen
}
