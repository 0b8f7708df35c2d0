package router

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// A fleet is a set of routes of one make, and the request of each.
type fleet struct {
	name  string
	kind  Kind
	route func(i int) *Route[int]
	ask   func(i int) Request
}

func id(i int) string { return fmt.Sprintf("%08d", i) }

func fleets() []fleet {
	get := func(host, path string) Request { return Request{Method: "GET", Host: host, Path: path} }
	return []fleet{
		{"exact paths", HostURI,
			func(i int) *Route[int] { return &Route[int]{ID: id(i), Paths: []string{"/api/v1/" + id(i)}} },
			func(i int) Request { return get("example.com", "/api/v1/"+id(i)) }},
		{"exact paths of one host", HostURI,
			func(i int) *Route[int] {
				return &Route[int]{ID: id(i), Paths: []string{"/api/v1/" + id(i)}, Hosts: []string{"example.com"}}
			},
			func(i int) Request { return get("example.com", "/api/v1/"+id(i)) }},
		{"prefixes", HostURI,
			func(i int) *Route[int] { return &Route[int]{ID: id(i), Paths: []string{"/svc/" + id(i) + "/*"}} },
			func(i int) Request { return get("example.com", "/svc/"+id(i)+"/orders/17") }},
		{"hosts", HostURI,
			func(i int) *Route[int] {
				return &Route[int]{ID: id(i), Paths: []string{"/*"}, Hosts: []string{"h" + id(i) + ".example.com"}}
			},
			func(i int) Request { return get("h"+id(i)+".example.com:8080", "/orders/17") }},
		{"wildcard hosts", HostURI,
			func(i int) *Route[int] {
				return &Route[int]{ID: id(i), Paths: []string{"/*"}, Hosts: []string{"*.h" + id(i) + ".example.com"}}
			},
			func(i int) Request { return get("www.h"+id(i)+".example.com", "/orders/17") }},
		{"parameters", URIWithParameter,
			func(i int) *Route[int] {
				return &Route[int]{ID: id(i), Paths: []string{"/svc/" + id(i) + "/users/:name/orders"}}
			},
			func(i int) Request { return get("example.com", "/svc/"+id(i)+"/users/jack/orders") }},
	}
}

func (f fleet) build(n int) (Router[int], []*Route[int]) {
	r := New[int](f.kind)
	e := r.Edit()
	routes := make([]*Route[int], n)
	for i := range routes {
		routes[i] = f.route(i)
		e.Insert(routes[i])
	}
	return e.Router(), routes
}

func BenchmarkMatch(b *testing.B) {
	for _, f := range fleets() {
		for _, n := range []int{10_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				r, _ := f.build(n)
				asked := make([]Request, n)
				for i, j := range rand.Perm(n) {
					asked[i] = f.ask(j)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, ok := r.Match(asked[i%n], nil); !ok {
						b.Fatal("no route")
					}
				}
			})
		}
	}
}

func BenchmarkReplaceOne(b *testing.B) {
	for _, f := range fleets() {
		for _, n := range []int{10_000, 50_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				r, routes := f.build(n)
				b.ReportAllocs()
				for b.Loop() {
					i := rand.IntN(n)
					e := r.Edit()
					route := *routes[i]
					e.Put(routes[i], &route)
					routes[i] = &route
					r = e.Router()
				}
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	const n = 100_000
	for _, f := range fleets() {
		b.Run(f.name, func(b *testing.B) {
			routes := make([]*Route[int], n)
			for i := range routes {
				routes[i] = f.route(i)
			}
			for b.Loop() {
				before := live()
				r := New[int](f.kind)
				e := r.Edit()
				for _, route := range routes {
					e.Insert(route)
				}
				r = e.Router()
				e = nil
				b.ReportMetric(float64(live()-before)/n, "B/route")
				runtime.KeepAlive(r)
			}
			runtime.KeepAlive(routes)
		})
	}
}

func live() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
