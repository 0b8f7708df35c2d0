package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/plugin"
)

// A world draws routes and requests from alphabets so small that patterns
// often overlap.
type world struct {
	*rand.Rand
	ids       int
	reference matcher
}

func newWorld(seed, stream uint64) *world {
	return &world{Rand: rand.New(rand.NewPCG(seed, stream)), reference: matcher{}}
}

func (w *world) text(alphabet string, longest int) string {
	var b strings.Builder
	for range w.IntN(longest + 1) {
		b.WriteByte(alphabet[w.IntN(len(alphabet))])
	}
	return b.String()
}

func (w *world) pick(from ...string) string { return from[w.IntN(len(from))] }

func (w *world) some(longest int, one func() string) (list []string) {
	for range w.IntN(longest + 1) {
		list = append(list, one())
	}
	return list
}

func (w *world) pattern() string {
	switch w.IntN(6) {
	case 0:
		return "/" + w.text("ab/", 4)
	case 1:
		return "/" + w.text("ab/", 4) + "*"
	case 2:
		return w.text("/ab*:.", 7)
	case 3:
		return w.pick("*", "/*", "/a/*", "/a*", "/:x", "/a/:x", "/a/:x/b", "/:x/*y", "/*/b", "/a/*/b", "/a/*y")
	default:
		var b strings.Builder
		for range 1 + w.IntN(4) {
			b.WriteString("/" + w.pick("a", "b", "ab", "a.", ":x", ":y", "*", "*z", "a*", "a:", ""))
		}
		return b.String()
	}
}

func (w *world) hostPattern() string {
	switch w.IntN(4) {
	case 0:
		return w.pick("*", "*.a", "*.b.a", "*a", "*b.a:80", "*:80", "[::1]", "[::1]:80", "A.a", "*.A")
	case 1:
		return "*" + w.text("ab.", 4)
	default:
		return w.text("ab.", 2) + w.pick("a", "b") + w.pick("", "", ":80")
	}
}

func (w *world) path() string {
	switch w.IntN(4) {
	case 0:
		return "/" + w.text("ab/", 6)
	case 1:
		return w.text("/ab*:.\n", 7)
	default:
		var b strings.Builder
		for range 1 + w.IntN(4) {
			b.WriteString("/" + w.pick("a", "b", "ab", "a.", "", ":x"))
		}
		return b.String()
	}
}

func (w *world) host() string {
	switch w.IntN(6) {
	case 0:
		return w.pick("[::1]", "[::1]:80", "[::1]:81", "A.a", "B.A:80", "", "a.", "b.a.:80")
	default:
		return w.text("ab.", 4) + w.pick("a", "b", "A") + w.pick("", "", ":80", ":81")
	}
}

func (w *world) method() string {
	return w.pick("GET", "POST", "PURGE", "MKCOL", "get", "")
}

func (w *world) request() (Request, *plugin.Ctx) {
	return Request{Method: w.method(), Host: w.host(), Path: w.path()}, &plugin.Ctx{Scheme: w.pick("http", "https")}
}

func (w *world) route() *Route[int] {
	w.ids++
	r := &Route[int]{
		ID:       strconv.Itoa(w.IntN(100) + 100*w.ids),
		Paths:    append(w.some(2, w.pattern), w.pattern()),
		Created:  w.Int64N(3),
		Priority: w.IntN(3) - 1,
		Value:    w.ids,
	}
	if w.IntN(3) > 0 {
		r.Hosts = w.some(3, w.hostPattern)
	}
	if w.IntN(3) == 0 {
		r.Methods = w.some(2, w.method)
	}
	if w.IntN(4) == 0 {
		r.Match = func(c *plugin.Ctx) bool { return c.Scheme == "https" }
	}
	return r
}

// A version is a router and what is in it.
type version struct {
	router Router[int]
	routes []*Route[int]
}

// next makes some random changes through one Edit.
func (w *world) next(v version) version {
	e, routes := v.router.Edit(), slices.Clone(v.routes)
	for range 1 + w.IntN(4) {
		var old, new *Route[int]
		if len(routes) > 0 && w.IntN(25) < len(routes) {
			i := w.IntN(len(routes))
			old = routes[i]
			routes = slices.Delete(routes, i, i+1)
		}
		if w.IntN(3) > 0 {
			new = w.route()
			if old != nil && w.IntN(2) == 0 {
				same := *old
				new = &same
				new.Value++
			}
			routes = append(routes, new)
		}
		e.Put(old, new)
	}
	return version{e.Router(), routes}
}

func (w *world) check(t *testing.T, v version) (matched bool) {
	t.Helper()
	q, c := w.request()
	want, wantOK := w.reference.match(v.router.kind, v.routes, q, c)
	got, ok := v.router.Match(q, c)
	if ok != wantOK || got.Route != want.Route || got.Path != want.Path || got.Host != want.Host {
		var b strings.Builder
		for _, r := range v.routes {
			fmt.Fprintf(&b, "%+v\n", *r)
		}
		t.Fatalf("kind %d, request %+q\n got %v %+v %q %q\nwant %v %+v %q %q\nof\n%s", v.router.kind, q,
			ok, got.Route, got.Path, got.Host, wantOK, want.Route, want.Path, want.Host, b.String())
	}
	if ok {
		w.checkParams(t, v.router.kind, got, q.Path)
	}
	return ok
}

// checkParams compares the parameters with what the original would capture.
func (w *world) checkParams(t *testing.T, kind Kind, f Found[int], path string) {
	t.Helper()
	got := f.Params(nil)
	if exact, _, _ := w.reference.pathMatches(f.Path, path, kind == URIWithParameter); exact {
		if len(got) > 0 {
			t.Fatalf("an exact path has parameters %q", got)
		}
		return
	}
	if kind != URIWithParameter && strings.HasSuffix(f.Path, "*") && strings.Contains(f.Path, ":") {
		return // the original also captures segments that match only themselves
	}
	p := w.reference.pattern(f.Path)
	if len(p.names) == 0 {
		if len(got) > 0 {
			t.Fatalf("pattern %q has parameters %q", f.Path, got)
		}
		return
	}
	values := p.re.FindStringSubmatch(path)
	for i, name := range p.names {
		if i >= len(got) || got[i] != (Param{name, values[i+1]}) {
			t.Fatalf("pattern %q, path %q: parameters %q, want names %q, values %q", f.Path, path, got, p.names, values[1:])
		}
	}
}

// TestAgainstReference makes random changes, each from the version before, and
// holds every version against the reference, at the time and in the end.
func TestAgainstReference(t *testing.T) {
	const changes, requests = 40, 50
	for _, kind := range []Kind{HostURI, URI, URIWithParameter} {
		t.Run(strconv.Itoa(int(kind)), func(t *testing.T) {
			t.Parallel()
			matched := 0
			for seed := range uint64(sequences) {
				w := newWorld(seed, uint64(kind))
				versions := []version{{router: New[int](kind)}}
				for range changes {
					v := w.next(versions[len(versions)-1])
					for range requests {
						if w.check(t, v) {
							matched++
						}
					}
					versions = append(versions, v)
				}
				for _, v := range versions {
					for range requests / 4 {
						w.check(t, v)
					}
				}
			}
			if all := sequences * changes * requests; matched < all/3 || matched > all*9/10 {
				t.Errorf("%d of %d requests found a route: the alphabets do not fit", matched, all)
			}
		})
	}
}

// TestRemoveAll takes every route out again, in random order and steps.
func TestRemoveAll(t *testing.T) {
	for _, kind := range []Kind{HostURI, URI, URIWithParameter} {
		w := newWorld(5, uint64(kind))
		r := New[int](kind)
		var routes []*Route[int]
		e := r.Edit()
		for range 300 {
			route := w.route()
			routes = append(routes, route)
			e.Insert(route)
		}
		r = e.Router()
		w.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		for len(routes) > 0 {
			e := r.Edit()
			for range min(1+w.IntN(3), len(routes)) {
				e.Remove(routes[0])
				routes = routes[1:]
			}
			r = e.Router()
		}
		if !r.any.empty() || r.plain.exact.Len() != 0 || r.plain.suffix != nil || r.ported.exact.Len() != 0 || r.ported.suffix != nil {
			t.Errorf("kind %d: something is left: %+v", kind, r)
		}
	}
}
