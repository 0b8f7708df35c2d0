package router

import (
	"cmp"
	"slices"
	"strings"

	"weir/internal/plugin"
)

// An entry is one path of one route, shared by all hosts of the route. What a
// request asks of it stands first: of many routes none is in a cache.
type entry[V any] struct {
	methods methods
	exact   bool
	check   *check        // nil: none
	hosts   []hostPattern // where the host is a predicate; empty: any
	match   func(*plugin.Ctx) bool
	value   V
	path    string // the pattern

	route  *Route[V]
	order  int // its place among the route's
	prefix string
}

// places are the entries of one place, in their order.
type places[V any] struct {
	first *entry[V]
	more  []*entry[V]
}

func (p *places[V]) list() []*entry[V] {
	if p.first == nil {
		return nil
	}
	return append([]*entry[V]{p.first}, p.more...)
}

func placesOf[V any](list []*entry[V]) places[V] {
	return places[V]{list[0], list[1:]}
}

// A lookup is a request as the entries see it. The host lies behind a pointer
// of its own, so that a lower-cased copy of it may be on the stack although
// regular expressions let the path escape.
type lookup struct {
	path   string
	method methods
	ctx    *plugin.Ctx
}

// methods is a set of methods.
type methods uint16

const (
	otherMethod methods = 1 << 15
	anyMethod   methods = 1<<16 - 1
)

// method returns the set of the one method; those unknown to APISIX are one.
func method(name string) methods {
	switch name {
	case "GET":
		return 1 << 0
	case "POST":
		return 1 << 1
	case "PUT":
		return 1 << 2
	case "DELETE":
		return 1 << 3
	case "PATCH":
		return 1 << 4
	case "HEAD":
		return 1 << 5
	case "OPTIONS":
		return 1 << 6
	case "CONNECT":
		return 1 << 7
	case "TRACE":
		return 1 << 8
	case "PURGE":
		return 1 << 9
	}
	return otherMethod
}

func methodsOf(names []string) methods {
	if len(names) == 0 {
		return anyMethod
	}
	var m methods
	for _, n := range names {
		m |= method(n)
	}
	return m &^ otherMethod
}

// entriesOf takes the paths of a route apart.
func entriesOf[V any](route *Route[V], kind Kind) []*entry[V] {
	var hosts []hostPattern
	if kind != HostURI {
		for _, h := range route.Hosts {
			hosts = append(hosts, parseHost(h))
		}
	}
	list := make([]*entry[V], 0, len(route.Paths))
	repeated := repeated(route.Paths)
	for i, path := range route.Paths {
		if repeated(i) {
			continue
		}
		p := parsePattern(path, kind == URIWithParameter)
		list = append(list, &entry[V]{
			route:   route,
			path:    path,
			order:   i,
			prefix:  p.prefix,
			exact:   p.exact,
			methods: methodsOf(route.Methods),
			match:   route.Match,
			value:   route.Value,
			check:   p.check,
			hosts:   hosts,
		})
	}
	return list
}

// repeated says of an element whether its text stands before it, too.
func repeated(list []string) func(i int) bool {
	const few = 16 // of which comparing is cheaper
	if len(list) <= few {
		return func(i int) bool { return slices.Contains(list[:i], list[i]) }
	}
	first := make(map[string]int, len(list))
	for i, text := range slices.Backward(list) {
		first[text] = i
	}
	return func(i int) bool { return first[list[i]] != i }
}

// compare orders the entries of one place: the first that admits a request wins.
func compare[V any](a, b *entry[V]) int {
	return cmp.Or(
		cmp.Compare(b.route.Priority, a.route.Priority),
		cmp.Compare(len(b.path), len(a.path)),
		cmp.Compare(a.route.Created, b.route.Created),
		strings.Compare(a.route.ID, b.route.ID),
		cmp.Compare(a.order, b.order),
	)
}

// find returns the first entry that admits the request, or nil.
func (p *places[V]) find(l *lookup, h *hostName) *entry[V] {
	if p.first.admits(l, h) {
		return p.first
	}
	for _, e := range p.more {
		if e.admits(l, h) {
			return e
		}
	}
	return nil
}

func (e *entry[V]) admits(l *lookup, h *hostName) bool {
	return e.methods&l.method != 0 &&
		(len(e.hosts) == 0 || e.host(h) >= 0) &&
		(e.check == nil || e.check.matches(l.path)) &&
		(e.match == nil || e.match(l.ctx))
}

// host returns the index of the first host pattern that matches, or -1.
func (e *entry[V]) host(h *hostName) int {
	return slices.IndexFunc(e.hosts, func(p hostPattern) bool { return p.matches(h) })
}
