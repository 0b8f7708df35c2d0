package router

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"weir/internal/plugin"
)

// routes makes a router of routes whose ID is their only path, or what is given.
func routes(kind Kind, list ...*Route[int]) Router[int] {
	r := New[int](kind)
	e := r.Edit()
	for _, route := range list {
		e.Insert(route)
	}
	return e.Router()
}

func paths(list ...string) []*Route[int] {
	var all []*Route[int]
	for i, p := range list {
		all = append(all, &Route[int]{ID: p, Paths: []string{p}, Created: int64(i)})
	}
	return all
}

func hostsOf(list ...string) []*Route[int] {
	var all []*Route[int]
	for i, h := range list {
		r := &Route[int]{ID: h, Paths: []string{"/*"}, Created: int64(i)}
		if h != "none" {
			r.Hosts = []string{h}
		}
		all = append(all, r)
	}
	return all
}

// TestPaths asks routers of one path per route; want is the pattern.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		patterns []string
		want     map[string]string // by path; empty: no route
	}{
		{URI, []string{"/a"}, map[string]string{"/a": "/a", "/a/": "", "/A": "", "/": "", "/ab": ""}},
		{URI, []string{"/a", "/a/"}, map[string]string{"/a": "/a", "/a/": "/a/", "/a//": ""}},
		{URI, []string{"/a*"}, map[string]string{"/a": "/a*", "/ab": "/a*", "/a/b": "/a*", "/b": ""}},
		{URI, []string{"/a/*"}, map[string]string{"/a": "", "/a/": "/a/*", "/a/b/c": "/a/*"}},
		{URI, []string{"/*", "/a*", "/a/*", "/a/b"}, map[string]string{
			"/": "/*", "/x": "/*", "/ax": "/a*", "/a": "/a*", "/a/": "/a/*", "/a/b": "/a/b", "/a/bc": "/a/*",
		}},
		{URI, []string{"*"}, map[string]string{"/": "*", "": "*", "x": "*"}},
		{URI, []string{"/a/*/b"}, map[string]string{
			"/a/x/b": "/a/*/b", "/a/x/y/b": "/a/*/b", "/a//b": "/a/*/b", "/a/b": "", "/a/x/b/": "", "/a/x/bc": "",
		}},
		{URI, []string{"/a/*/b/"}, map[string]string{"/a/x/b/": "/a/*/b/", "/a/x/b": ""}},
		{URI, []string{"/a*/b"}, map[string]string{"/a": "/a*/b", "/ax": "/a*/b", "/a/b": "/a*/b"}},
		{URI, []string{"/a/*/b.c", "/a/*"}, map[string]string{"/a/x/b.c": "/a/*/b.c", "/a/x/bxc": "/a/*/b.c", "/a/x/bc": "/a/*"}},
		{URI, []string{"/a/*/b(", "/c+/*"}, map[string]string{"/a/x/b(": "/a/*/b(", "/c+/d": "/c+/*", "/cc/d": ""}},
		{URI, []string{"/a/*/b\xff"}, map[string]string{"/a/x/b\xff": "", "/a/x/b": ""}},
		{URI, []string{"/user/:id"}, map[string]string{"/user/:id": "/user/:id", "/user/7": ""}},
		{HostURI, []string{"/user/:id/*"}, map[string]string{"/user/:id/x": "/user/:id/*", "/user/7/x": ""}},
		{URIWithParameter, []string{"/user/:id"}, map[string]string{
			"/user/7": "/user/:id", "/user/": "", "/user/7/": "", "/user/7/x": "", "/user": "",
		}},
		{URIWithParameter, []string{"/user/:id/", "/user/:id/*", "/user/me"}, map[string]string{
			"/user/7": "", "/user/7/": "/user/:id/*", "/user/7/x": "/user/:id/*", "/user/me": "/user/me", "/user/me/": "/user/:id/*",
		}},
		{URIWithParameter, []string{"/:a/b", "/*"}, map[string]string{"/x/b": "/:a/b", "/x/c": "/*", "//b": "/*"}},
		{URIWithParameter, []string{"/p/:id/nodes/?", "/p/:id", "/p/*rest"}, map[string]string{
			"/p/1/nodes": "/p/:id/nodes/?", "/p/1/nodes/": "/p/:id/nodes/?", "/p/1": "/p/*rest", "/p/1/x": "/p/*rest", "/p/": "/p/*rest",
		}},
		{URIWithParameter, []string{"/v1/x:cancel"}, map[string]string{"/v1/x:cancel": "/v1/x:cancel", "/v1/xy": "/v1/x:cancel"}},
	} {
		r := routes(c.kind, paths(c.patterns...)...)
		for path, want := range c.want {
			f, ok := r.Match(Request{Method: "GET", Host: "a", Path: path}, nil)
			if ok != (want != "") || f.Path != want || ok && f.Route.ID != want {
				t.Errorf("kind %d, %q: %q goes to %q, want %q", c.kind, c.patterns, path, f.Path, want)
			}
		}
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     map[string]string // by Host; empty: no route
	}{
		{[]string{"foo.com"}, map[string]string{
			"foo.com": "foo.com", "FOO.com": "foo.com", "foo.com:8080": "foo.com", "foo.com.": "foo.com", "Foo.Com.:80": "foo.com",
			"a.foo.com": "", "foo.co": "", "": "",
		}},
		{[]string{"Foo.COM"}, map[string]string{"foo.com": "foo.com"}},
		{[]string{"*.foo.com"}, map[string]string{"a.foo.com": "*.foo.com", "a.b.foo.com:1": "*.foo.com", "foo.com": "", "afoo.com": ""}},
		{[]string{"*foo.com"}, map[string]string{"barfoo.com": "*foo.com", "foo.com": "*foo.com", "oo.com": ""}},
		{[]string{"*"}, map[string]string{"x": "*", "": "*", "[::1]:80": "*"}},
		{[]string{"none", "*", "*.com", "*.foo.com", "a.foo.com"}, map[string]string{
			"a.foo.com": "a.foo.com", "b.foo.com": "*.foo.com", "foo.com": "*.com", "x.org": "*",
		}},
		{[]string{"foo.com:8080", "foo.com"}, map[string]string{"foo.com:8080": "foo.com:8080", "FOO.com:8080": "foo.com:8080", "foo.com:80": "foo.com"}},
		{[]string{"*.foo.com:8080", "*.a.foo.com"}, map[string]string{"b.a.foo.com:8080": "*.foo.com:8080", "b.a.foo.com": "*.a.foo.com", "b.foo.com": ""}},
		{[]string{"[::1]", "[::2]:80"}, map[string]string{"[::1]": "[::1]", "[::1]:80": "[::1]", "[::2]:80": "[::2]:80", "[::2]": "", "[::2]:81": ""}},
	} {
		r := routes(HostURI, hostsOf(c.patterns...)...)
		for host, want := range c.want {
			f, ok := r.Match(Request{Method: "GET", Host: host, Path: "/"}, nil)
			if ok != (want != "") || f.Host != want {
				t.Errorf("%q: %q goes to %q, want %q", c.patterns, host, f.Host, want)
			}
		}
	}
}

// TestLongHost: a host that does not fit the space on the stack.
func TestLongHost(t *testing.T) {
	long := make([]byte, 2*hostSize)
	for i := range long {
		long[i] = "aA."[i%3]
	}
	r := routes(HostURI, hostsOf("*.aa.aa.com", "none")...)
	if f, _ := r.Match(Request{Host: string(long) + ".AA.aa.com:80", Path: "/"}, nil); f.Host != "*.aa.aa.com" {
		t.Errorf("found %q", f.Host)
	}
}

// TestFallThrough: what a candidate refuses goes to the next one, across
// paths, host levels and routes without hosts.
func TestFallThrough(t *testing.T) {
	get := []string{"GET"}
	r := routes(HostURI,
		&Route[int]{ID: "exact", Paths: []string{"/a"}, Hosts: []string{"b.foo.com"}, Methods: get},
		&Route[int]{ID: "prefix", Paths: []string{"/a*"}, Hosts: []string{"b.foo.com"}, Methods: []string{"PUT"}},
		&Route[int]{ID: "other path", Paths: []string{"/b"}, Hosts: []string{"*.foo.com"}},
		&Route[int]{ID: "wild", Paths: []string{"/a"}, Hosts: []string{"*.foo.com"}, Methods: []string{"POST"}},
		&Route[int]{ID: "wilder", Paths: []string{"/*"}, Hosts: []string{"*.com"}, Methods: []string{"PATCH"}, Priority: 9},
		&Route[int]{ID: "none", Paths: []string{"/a"}, Priority: 99},
	)
	for method, want := range map[string]string{
		"GET": "exact", "PUT": "prefix", "POST": "wild", "PATCH": "wilder", "DELETE": "none", "MKCOL": "none",
	} {
		if f, _ := r.Match(Request{Method: method, Host: "b.foo.com", Path: "/a"}, nil); f.Route.ID != want {
			t.Errorf("%s goes to %q, want %q", method, f.Route.ID, want)
		}
	}
}

// TestOrder: priority, then the longer pattern, then the older, then the ID.
func TestOrder(t *testing.T) {
	list := []*Route[int]{
		{ID: "1", Paths: []string{"/a*"}, Priority: 1, Created: 9},
		{ID: "2", Paths: []string{"/a*/b"}, Created: 9},
		{ID: "10", Paths: []string{"/a*"}, Created: 1},
		{ID: "3", Paths: []string{"/a*"}, Created: 2},
		{ID: "4", Paths: []string{"/a*"}, Created: 2},
	}
	shuffled := slices.Clone(list)
	for range 20 {
		rand.Shuffle(len(list), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		r := New[int](HostURI)
		for _, route := range shuffled {
			e := r.Edit()
			e.Insert(route)
			r = e.Router()
		}
		for _, want := range list {
			f, _ := r.Match(Request{Path: "/ab"}, nil)
			if f.Route != want {
				t.Fatalf("found %+v, want %+v", f.Route, want)
			}
			e := r.Edit()
			e.Remove(want)
			r = e.Router()
		}
	}
}

func TestPredicate(t *testing.T) {
	c := &plugin.Ctx{Client: "10.0.0.1"}
	r := routes(URI,
		&Route[int]{ID: "inside", Paths: []string{"/"}, Priority: 1, Match: func(c *plugin.Ctx) bool { return c.Client == "10.0.0.1" }},
		&Route[int]{ID: "outside", Paths: []string{"/"}},
	)
	for client, want := range map[string]string{"10.0.0.1": "inside", "10.0.0.2": "outside"} {
		c.Client = client
		if f, _ := r.Match(Request{Path: "/"}, c); f.Route.ID != want {
			t.Errorf("%s goes to %s", client, f.Route.ID)
		}
	}
}

func TestParams(t *testing.T) {
	for _, c := range []struct {
		kind          Kind
		pattern, path string
		want          []Param
	}{
		{URIWithParameter, "/u/:id/x/:y", "/u/7/x/8", []Param{{"id", "7"}, {"y", "8"}}},
		{URIWithParameter, "/u/:id/*rest", "/u/7/a/b", []Param{{"id", "7"}, {"rest", "a/b"}}},
		{URIWithParameter, "/u/:id/*", "/u/7/", []Param{{"id", "7"}, {":ext", ""}}},
		{URIWithParameter, "/u/:id/v1.0", "/u/7/v1.0", []Param{{"id", "7"}}},
		{URIWithParameter, "/u", "/u", nil},
		{HostURI, "/a/*rest", "/a/b/c", []Param{{"rest", "b/c"}}},
		{HostURI, "/a/*", "/a/b", []Param{{":ext", "b"}}},
		{HostURI, "/a/*/b/*", "/a/1/b/2/b/3", []Param{{":ext", "1/b/2"}, {":ext", "3"}}},
		{HostURI, "/a*", "/ab", nil},
		{URI, "*", "/ab", []Param{{":ext", "/ab"}}},
	} {
		r := routes(c.kind, paths(c.pattern)...)
		f, ok := r.Match(Request{Path: c.path}, nil)
		if got := f.Params(nil); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %v, parameters %q, want %q", c.pattern, c.path, ok, got, c.want)
		}
	}
	var none Found[int]
	if none.Params(nil) != nil {
		t.Error("parameters without a route")
	}
}

func TestEdit(t *testing.T) {
	a := &Route[int]{ID: "a", Paths: []string{"/a", "/a", "/a*"}, Hosts: []string{"h", "H", "*.h"}}
	twin := &Route[int]{ID: "a", Paths: []string{"/a"}, Hosts: []string{"h"}}
	found := func(r Router[int]) *Route[int] {
		f, _ := r.Match(Request{Host: "h", Path: "/a"}, nil)
		return f.Route
	}
	r := New[int](HostURI)
	e := r.Edit()
	e.Insert(a)
	e.Insert(a)
	one := e.Router()
	e.Remove(twin)
	if same := e.Router(); found(same) != a {
		t.Error("removing a twin that is not there removed the route")
	}
	e.Put(a, twin)
	replaced := e.Router()
	e.Insert(a)
	e.Remove(a)
	e.Remove(twin)
	none := e.Router()
	if found(r) != nil || found(one) != a || found(replaced) != twin || found(none) != nil {
		t.Error("versions are mixed up")
	}
	if !none.any.empty() || none.plain.exact.Len() > 0 || none.plain.suffix != nil {
		t.Errorf("something is left: %+v", none)
	}
}

// A route with very many hosts or paths, some of them repeated, is found by each, and
// takes no longer than as many routes: each was compared with all before it.
func TestManyOfOneRoute(t *testing.T) {
	const n = 200_000
	hosts, paths := &Route[int]{ID: "hosts", Paths: []string{"/*"}}, &Route[int]{ID: "paths"}
	for i := range n {
		hosts.Hosts = append(hosts.Hosts, "H"+strconv.Itoa(i/2)+".test")
		paths.Paths = append(paths.Paths, "/p"+strconv.Itoa(i/2))
	}
	r := routes(HostURI, hosts, paths)
	for _, i := range []int{0, 7, n/2 - 1} {
		byHost, _ := r.Match(Request{Host: "h" + strconv.Itoa(i) + ".test", Path: "/p0"}, nil)
		byPath, _ := r.Match(Request{Host: "x", Path: "/p" + strconv.Itoa(i)}, nil)
		if byHost.Route != hosts || byPath.Route != paths {
			t.Errorf("%d: %v by its host, %v by its path", i, byHost.Route, byPath.Route)
		}
	}
	if got := r.plain.exact.Len(); got != n/2 {
		t.Errorf("%d hosts, want %d", got, n/2)
	}
}

// TestReaders matches in old versions while new ones are made from them.
func TestReaders(t *testing.T) {
	w := newWorld(1, 2)
	v := version{router: New[int](HostURI)}
	var wg sync.WaitGroup
	for i := range 100 {
		v = w.next(v)
		if i%10 != 0 {
			continue
		}
		old := v
		wg.Go(func() {
			reader := newWorld(uint64(i), 3)
			for range 300 {
				reader.check(t, old)
			}
		})
	}
	wg.Wait()
}

func TestMatchDoesNotAllocate(t *testing.T) {
	hosts := routes(HostURI, append(hostsOf("a.foo.com", "*.foo.com", "*.bar.com:80", "none"), paths("/a", "/b/*/c")...)...)
	params := routes(URIWithParameter, paths("/u/:id", "/u/:id/v1.0", "/f/*name")...)
	c := &plugin.Ctx{}
	for _, q := range []struct {
		r Router[int]
		Request
	}{
		{hosts, Request{"GET", "a.foo.com", "/x"}},
		{hosts, Request{"GET", "B.Foo.com:8080", "/x"}},
		{hosts, Request{"GET", "x.y.bar.com:80", "/x"}},
		{hosts, Request{"GET", "other", "/b/x/c"}},
		{params, Request{"GET", "a", "/u/7"}},
		{params, Request{"GET", "a", "/u/7/v1.0"}},
		{params, Request{"GET", "a", "/f/g"}},
		{params, Request{"GET", "a", "/none"}},
	} {
		if n := testing.AllocsPerRun(200, func() { q.r.Match(q.Request, c) }); n != 0 {
			t.Errorf("%+v: %v allocations", q.Request, n)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, p := range []string{"/a", "/a/*", "/a/*/b", "/a/:b/*c/", "/*/(", "*", ":", "/a.*/:b", "//:"} {
		for kind := range uint8(3) {
			f.Add(kind, p, "/a/x/b", "*.foo.com:80", "A.foo.com:80")
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, pattern, path, hostPattern, host string) {
		route := &Route[int]{ID: "1", Paths: []string{pattern}, Hosts: []string{hostPattern}}
		r := routes(Kind(kind%3), route)
		q := Request{Host: host, Path: path}
		got, ok := r.Match(q, nil)
		if ok {
			for _, p := range got.Params(nil) {
				if len(p.Value) > len(path) {
					t.Errorf("parameter %q of %q", p, path)
				}
			}
			if got.Path != pattern {
				t.Errorf("pattern %q, want %q", got.Path, pattern)
			}
		}
		// Elsewhere a literal text may be an expression to the reference.
		if plain(pattern) && plainHost(hostPattern) && plainHost(host) {
			if _, want := (matcher{}).match(r.kind, []*Route[int]{route}, q, nil); ok != want {
				t.Errorf("found %v, want %v", ok, want)
			}
		}
		e := r.Edit()
		e.Remove(route)
		if r = e.Router(); !r.any.empty() || r.plain.exact.Len()+r.ported.exact.Len() > 0 || r.plain.suffix != nil || r.ported.suffix != nil {
			t.Errorf("something is left: %+v", r)
		}
	})
}

func plain(pattern string) bool {
	for _, c := range pattern {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '/' || c == '*' || c == ':' || c == '-' || c == '_':
		default:
			return false
		}
	}
	return true
}

// plainHost accepts hosts with at most one port, as both sides check them at the door.
func plainHost(host string) bool {
	colons := 0
	for i, c := range host {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '*' && i == 0:
		case c == ':':
			colons++
		default:
			return false
		}
	}
	return host != "" && colons <= 1
}
