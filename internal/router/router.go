// Package router finds the route of a request by host, path, method and a
// further predicate, with the order of precedence of APISIX 3.18
// (lua-resty-radixtree 2.9.2).
//
// A Router is an immutable value. A change makes the next one by copying the
// nodes on the way to what changed and sharing the rest.
package router

import (
	"strings"

	"weir/internal/plugin"
)

// A Kind says what a Router looks at first.
type Kind uint8

// The kinds, by the names of APISIX's router.http setting.
const (
	// HostURI is radixtree_host_uri: hosts first, then paths; a route with a
	// matching host comes before all routes without.
	HostURI Kind = iota
	// URI is radixtree_uri: paths first, the host is one more predicate.
	URI
	// URIWithParameter is radixtree_uri_with_parameter: as URI, and a path
	// segment that starts with ":" matches any one segment.
	URIWithParameter
)

// A Route is what a Router finds. It must not be changed while it is in one.
type Route[V any] struct {
	ID string

	// Paths are patterns: an exact path, or one with a "*", which matches what
	// starts with the text before it.
	Paths []string

	// Hosts are patterns: an exact host, or "*" and a suffix. Empty: any host.
	// Case does not matter. A pattern with a port is compared with the Host as
	// received, another with the host alone.
	Hosts []string

	Methods  []string // empty: any; names APISIX does not know match nothing
	Priority int      // higher first, among patterns of equal rank
	Created  int64    // create revision: lower first among equals, then the lower ID

	// Match is the conjunction of all further predicates; nil: none.
	Match func(*plugin.Ctx) bool

	Value V
}

// A Request is what patterns are compared with.
type Request struct {
	Method string
	Host   string // as received, with the port if there was one
	Path   string // decoded and normalised
}

// Found is a matching route and the patterns that matched.
type Found[V any] struct {
	Route *Route[V]
	Value V      // Route's
	Path  string // the pattern, as in Route.Paths
	Host  string // the pattern, lower-cased; empty: the route has none

	entry *entry[V]
	path  string
}

// A Router is an immutable set of routes. Any number of goroutines may match.
type Router[V any] struct {
	kind   Kind
	any    table[V] // of routes without hosts, or of all where hosts are predicates
	plain  hosts[V] // of hosts without a port
	ported hosts[V] // of hosts with one
}

// Places is how many places of a Router a route with these hosts and paths takes.
func (k Kind) Places(hosts, paths int) int {
	if k == HostURI && hosts > 0 {
		return hosts * paths
	}
	return paths
}

// New returns an empty Router.
func New[V any](kind Kind) Router[V] { return Router[V]{kind: kind} }

// Like returns an empty Router of the same kind.
func (r *Router[V]) Like() *Router[V] { return &Router[V]{kind: r.kind} }

// Match returns the route of a request. The predicates of the candidates are
// asked with c, in order, until one passes.
func (r *Router[V]) Match(q Request, c *plugin.Ctx) (Found[V], bool) {
	l := lookup{path: q.Path, method: method(q.Method), ctx: c}
	h := hostName{port: q.Host}
	if hasUpper(q.Host) {
		var buf [hostSize]byte
		h.port = lower(q.Host, buf[:])
	}
	h.bare = bareHost(h.port)
	e, t := r.find(&l, &h)
	if e == nil {
		return Found[V]{}, false
	}
	f := Found[V]{Route: e.route, Value: e.value, Path: e.path, Host: t.host, entry: e, path: q.Path}
	if i := e.host(&h); i >= 0 {
		f.Host = e.hosts[i].pattern
	}
	return f, true
}

// find goes through the hosts: those with a port before those without, exact
// ones before suffixes, longer suffixes before shorter ones.
func (r *Router[V]) find(l *lookup, h *hostName) (*entry[V], *table[V]) {
	if e, t := r.ported.matchExact(h.port, l, h); e != nil {
		return e, t
	}
	if e, t := r.plain.matchExact(h.bare, l, h); e != nil {
		return e, t
	}
	if e, t := r.ported.matchSuffix(h.port, l, h); e != nil {
		return e, t
	}
	if e, t := r.plain.matchSuffix(h.bare, l, h); e != nil {
		return e, t
	}
	return r.any.match(l, h), &r.any
}

// Pattern takes paths apart as the matched pattern says. It lives as long as the
// route.
func (f *Found[V]) Pattern() plugin.Pattern {
	if f.entry == nil {
		return nil
	}
	return f.entry
}

// Param implements plugin.Pattern.
func (e *entry[V]) Param(path, name string) (value string, ok bool) {
	if !strings.HasPrefix(path, e.prefix) || e.check != nil && !e.check.matches(path) {
		return "", false
	}
	var params [8]Param
	f := Found[V]{entry: e, path: path}
	for _, p := range f.Params(params[:0]) {
		if p.Name == name {
			value, ok = p.Value, true // of equal names the last, as in a Lua table
		}
	}
	return value, ok
}

// Params appends the pieces of the path that the pattern names to dst. They
// refer to the memory of the Request's path.
func (f *Found[V]) Params(dst []Param) []Param {
	switch e := f.entry; {
	case e == nil || e.exact:
		return dst
	case e.check != nil:
		return e.check.params(f.path, dst)
	case e.path == "*" || strings.HasSuffix(e.path, "/*"):
		return append(dst, Param{unnamed, f.path[len(e.prefix):]})
	}
	return dst
}
