package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/profile"
	"weir/internal/router"
	"weir/internal/weirtest/planted"
)

func TestWatchCountsExactly(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	g.put(
		"routes/r", fmt.Sprintf(`{"uri":"/a","plugins":{"key-auth":{},"p1":{"phases":127}},"upstream":{"nodes":{%q:1}}}`, up.addr),
		"consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"},"p2":{"phases":2}}}`,
	)
	w, err := g.Watch(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Watch(false); !errors.Is(err, ErrWatched) {
		t.Errorf("a second watch: %v", err)
	}
	const clients, each = 8, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c := g.dial()
			for range each {
				c.send("GET /a HTTP/1.1\r\nHost: h\r\napikey: k\r\n\r\n")
				c.answer("GET")
			}
			c.send("GET /none HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer("GET")
		})
	}
	wg.Wait()
	const all = clients * (each + 1)
	await(t, "the last log phase", func() bool { return w.Calls().Requests == all })
	w.Stop()
	c := w.Calls()
	if c.Statuses != [6]int64{2: clients * each, 4: clients} || c.Tries != clients*each || c.Answered != clients*each {
		t.Errorf("%+v", c)
	}
	var got []string
	for _, s := range c.Steps {
		if s.Count != clients*each {
			t.Errorf("%+v, want %d", s, clients*each)
		}
		got = append(got, s.Plugin+" "+s.Phase+" "+s.From)
	}
	slices.Sort(got)
	want := []string{
		"key-auth rewrite routes/r", "p1 access routes/r", "p1 before_proxy routes/r", "p1 body routes/r", "p1 encode routes/r",
		"p1 header routes/r", "p1 log routes/r", "p1 rewrite routes/r", "p2 access consumers/jack",
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q", got)
	}
	g.get("/a", "apikey: k")
	if n := w.Calls().Requests; n != all {
		t.Errorf("%d requests after the end", n)
	}
}

// TestWatchWeighs: of a busy connection a profile counts some requests for all, and
// no other sum comes of it.
func TestWatchWeighs(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	g.put("routes/r", fmt.Sprintf(`{"uri":"/a","plugins":{"p1":{"phases":127}},"upstream":{"nodes":{%q:1}}}`, up.addr))
	const requests = countedFirst + 10*countedOf
	for _, profiled := range []bool{false, true} {
		w, err := g.Watch(profiled)
		if err != nil {
			t.Fatal(err)
		}
		c := g.dial()
		for range requests {
			c.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer("GET")
		}
		await(t, "the last log phase", func() bool { return w.Calls().Requests == requests })
		w.Stop()
		calls := w.Calls()
		if calls.Statuses[2] != requests || calls.Tries != requests || calls.Answered != requests || len(calls.Steps) == 0 {
			t.Errorf("profiled %v: %+v", profiled, calls)
		}
		for _, s := range calls.Steps {
			if s.Count != requests {
				t.Errorf("profiled %v: %+v, want %d", profiled, s, requests)
			}
		}
	}
}

func TestGlance(t *testing.T) {
	for label, want := range map[bool]int64{false: countedFirst + 10*countedOf, true: countedFirst + 10} {
		g, w, counted := glance{}, &Watch{label: label}, int64(0)
		for range countedFirst + 10*countedOf {
			if g.look(w); g.counts() {
				counted++
			}
		}
		if g.look(nil); counted != want || g.counts() {
			t.Errorf("label %v: %d requests were counted, want %d; after the end: %v", label, counted, want, g.counts())
		}
	}
}

// TestWatchIsBounded: of many routes and consumers the counts are exact in sum, and
// what is kept for them is bounded.
func TestWatchIsBounded(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	const routes = watchedSteps + 500
	var objects []string
	for i := range routes {
		objects = append(objects, fmt.Sprint("routes/r", i),
			fmt.Sprintf(`{"uri":"/%d","plugins":{"p1":{"phases":65}},"upstream":{"nodes":{%q:1}}}`, i, up.addr))
	}
	g.put(objects...)
	w, err := g.Watch(false)
	if err != nil {
		t.Fatal(err)
	}
	c := g.dial()
	for i := range routes {
		c.send("GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", i)
		c.answer("GET")
	}
	await(t, "the last log phase", func() bool { return w.Calls().Requests == routes })
	w.Stop()
	sum := map[string]int64{}
	calls := w.Calls()
	for _, s := range calls.Steps {
		sum[s.Phase] += s.Count
	}
	if len(sum) != 2 || sum["rewrite"] != routes || sum["log"] != routes {
		t.Errorf("%v, want %d of each", sum, routes)
	}
	if n := len(calls.Steps); n > watchedSteps+2 || calls.Steps[0].From != others {
		t.Errorf("%d functions, first %+v", n, calls.Steps[0])
	}
	plans := 0
	w.plans.Range(func(any, any) bool { plans++; return true })
	if plans > watchedPlans {
		t.Errorf("%d plans are kept", plans)
	}
}

func TestWatchOne(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	g.put("routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"p1":{"phases":65}},"upstream":{"nodes":{%q:1}}}`, up.addr))
	found := make(chan *Calls)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		c, err := g.WatchOne(ctx, func(c *plugin.Ctx) bool { v, _ := c.Header("X-Token"); return v == "mine" })
		if err != nil {
			t.Error(err)
		}
		found <- c
	}()
	await(t, "the watch", func() bool { return g.Engine.watch.Load() != nil })
	c := g.dial()
	for i := range 6 {
		token := "other"
		if i == 2 || i == 3 {
			token = "mine" // the second on the same connection does not count
		}
		c.send("GET /a HTTP/1.1\r\nHost: h\r\nX-Token: %s\r\n\r\n", token)
		c.answer("GET")
	}
	calls := <-found
	if calls == nil || calls.Requests != 1 || len(calls.Steps) != 2 || calls.Steps[0].Count != 1 {
		t.Errorf("%+v", calls)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := g.WatchOne(short, func(*plugin.Ctx) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that does not come: %v", err)
	}
	if g.Engine.watch.Load() != nil {
		t.Error("the watch is still there")
	}
}

// A watched plan outlives nothing: what it counts for is retired and closed as
// without it.
func TestWatchedPlanIsRetired(t *testing.T) {
	up := fixed(t, smallAnswer)
	closed := make(chan struct{})
	closing := plugin.Define(plugin.Meta{Name: "closing"}, func(*phased, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{Log: func(*plugin.Ctx) {}, Close: func() { close(closed) }}, nil
	})
	g := startPlugins(t, router.HostURI, nil, []plugin.Spec{closing})
	g.put("routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"closing":{}},"upstream":{"nodes":{%q:1}}}`, up.addr))
	w, err := g.Watch(false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	g.get("/")
	g.del("routes/r")
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the plugin was not closed")
	}
}

// TestPlantedPlugin: a plugin that wastes a twentieth of the CPU, spread over four
// phases, is the first that a profile names.
func TestPlantedPlugin(t *testing.T) {
	up := fixed(t, smallAnswer)
	all := append(plugins.All(), planted.Plugin)
	g := startPlugins(t, router.HostURI, nil, all)
	own := `"key-auth":{"key":"k"}`
	put := func(rounds int) {
		g.put(
			"routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"key-auth":{},"proxy-rewrite":{"uri":"/x"},"planted":{"rounds":%d}},"upstream":{"nodes":{%q:1}}}`, rounds, up.addr),
			"consumers/jack", `{"username":"jack","plugins":{`+own+`}}`,
		)
	}
	put(1)
	const warm, measured = 4000, 60000
	before := cpu(t)
	load(g, warm)
	perRequest := (cpu(t) - before) / warm
	put(planted.Rounds(perRequest / 20 / 4))

	w, err := g.Watch(true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Skipf("somebody else takes a profile: %v", err)
	}
	load(g, measured)
	pprof.StopCPUProfile()
	names := profile.Names{planted.Plugin.Package(): "planted"}
	for _, s := range plugins.All() {
		names[s.Package()] = s.Name
	}
	a, err := profile.Read(&b, "cpu", names)
	if err != nil {
		t.Fatal(err)
	}
	if a.Total == 0 {
		t.Skip("the profile is empty: the machine does not sample")
	}
	if len(a.Plugins) == 0 || a.Plugins[0].Name != "planted" || len(a.Plugins[0].Phases) < 2 {
		t.Errorf("plugins %+v", a.Plugins)
	}
	if !slices.ContainsFunc(a.Routes, func(s profile.Share) bool { return s.Name == "r" && s.Total > 0 }) {
		t.Errorf("routes %+v", a.Routes)
	}
	t.Logf("planted: %.1f %%", a.Percent(a.Plugins[0].Total))
}

// load sends n requests over some connections.
func load(g *gateway, n int) {
	const clients = 8
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c := g.dial()
			defer c.Close()
			out, in := []byte("GET /a HTTP/1.1\r\nHost: h\r\napikey: k\r\n\r\n"), make([]byte, 4096)
			for range n / clients {
				if _, err := c.Write(out); err != nil {
					g.t.Error(err)
					return
				}
				if k, err := c.Read(in); err != nil || !strings.HasPrefix(string(in[:k]), "HTTP/1.1 200") {
					g.t.Errorf("%q %v", in[:k], err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
