package snapshot

import (
	"log/slog"
	"testing"

	"weir/internal/plugin"
	"weir/internal/router"
	"weir/internal/upstream"
	"weir/internal/wire"
)

func TestVars(t *testing.T) {
	b := newBench(t)
	put := func(id, more string) { b.put("routes/"+id, `{"uri":"/v",`+more+`,`+node+`}`) }
	put("android", `"priority":9,"vars":[["http_user_agent","~*","android"]]`)
	put("inside", `"priority":8,"vars":[["arg_v","==","1"]],"remote_addrs":["10.0.0.0/8"]`)
	put("outside", `"priority":7,"vars":["!OR",["arg_v","==","2"],["arg_v","==",null]]`)
	put("fails", `"priority":6,"vars":[["arg_v","ipmatch","::1"]]`)
	put("always", `"priority":5,"vars":[]`)
	for _, c := range []struct{ client, target, agent, want string }{
		{"1.1.1.1", "/v", "Android", "android"},
		{"10.1.1.1", "/v?v=1", "", "inside"},
		{"1.1.1.1", "/v?v=1", "", "outside"},
		{"10.1.1.1", "/v?v=2", "", "always"},
		{"10.1.1.1", "/v", "", "always"},
		{"1.1.1.1", "/v?v", "", "outside"},
	} {
		x := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: c.target, Host: "h"}, Path: "/v", Client: c.client}
		if c.agent != "" {
			x.Request.Header.Add("User-Agent", c.agent)
		}
		if got := b.Current().Match(x); got == nil || got.ID != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	// A route that fails to compile keeps its last good form, vars included.
	put("android", `"priority":9,"vars":[["http_user_agent","~","x"]]`)
	x := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: "/v", Host: "h"}, Path: "/v", Client: "1.1.1.1"}
	x.Request.Header.Add("User-Agent", "Android")
	if got := b.Current().Match(x); got == nil || got.ID != "android" || b.Current().Fault(keyOf("routes/android")) == nil {
		t.Errorf("the last good form: %+v", got)
	}
}

func TestPathParameters(t *testing.T) {
	pools := upstream.NewPools()
	a := New(Config{Router: router.URIWithParameter, Upstream: upstream.Env{Pools: pools, Log: slog.New(slog.DiscardHandler)}})
	t.Cleanup(func() {
		a.Close()
		pools.Close()
	})
	b := &bench{Applier: a, t: t}
	b.put("routes/1", `{"uri":"/a/:id/b/*rest",`+node+`}`, "routes/2", `{"uri":"/w/*",`+node+`}`, "routes/3", `{"uri":"/exact",`+node+`}`)
	for path, want := range map[string][3]string{
		"/a/7/b/x/y": {"7", "x/y", ""},
		"/w/x/y":     {"", "", "x/y"},
		"/exact":     {},
	} {
		c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Host: "h"}, Path: path}
		if b.Current().Match(c) == nil {
			t.Errorf("%s: no route", path)
		}
		for i, name := range []string{"id", "rest", ":ext"} {
			if got, ok := c.Param(name); got != want[i] || ok != (want[i] != "") {
				t.Errorf("%s: %s is %q, %v", path, name, got, ok)
			}
		}
	}
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Host: "h"}, Path: "/a/x/y/b/c", RoutePath: "/a/x%2Fy/b/c"}
	if b.Current().Match(c) == nil {
		t.Error("the path with an encoded slash is not the one to match")
	}
	if id, _ := c.Param("id"); id != "x%2Fy" || c.MatchedPath != "/a/:id/b/*rest" {
		t.Errorf("id %q, path %s", id, c.MatchedPath)
	}
	if n := testing.AllocsPerRun(100, func() { b.Current().Match(c); c.Param("id") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
