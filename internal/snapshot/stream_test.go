package snapshot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/upstream"
)

// streamTag makes a plugin of stream routes that sets the variable of its name to
// its owner and V.
func (l *live) streamTag(name string, guard bool) plugin.StreamSpec {
	return plugin.DefineStream(plugin.Meta{Name: name, Priority: 10, Guard: guard, Doc: "Test plugin."},
		func(c *tagConf, env plugin.Env) (plugin.Stream, error) {
			if c.V < 0 {
				return plugin.Stream{}, errors.New("v is negative")
			}
			l.n.Add(1)
			value := fmt.Sprint(env.Owner, "=", c.V)
			return plugin.Stream{
				Preread: func(s *plugin.StreamCtx) *plugin.Reply { s.SetVar(name, value); return nil },
				Close:   func() { l.n.Add(-1) },
			}, nil
		})
}

// newStreamBench is newBench with plugins for streams; Close must follow.
func newStreamBench(t testing.TB, l *live) *bench {
	pools := upstream.NewPools()
	a := New(Config{
		Plugins:       []plugin.Spec{l.tag("tag", 10, false), l.tag("gate", 20, true)},
		StreamPlugins: []plugin.StreamSpec{l.streamTag("tag", false), l.streamTag("gate", true)},
		Upstream:      upstream.Env{Pools: pools},
	})
	t.Cleanup(func() {
		a.Close()
		pools.Close()
		if n := l.n.Load(); n != 0 {
			t.Errorf("%d plugin configurations were never closed", n)
		}
	})
	return &bench{Applier: a, t: t, live: l}
}

// session is one from 127.0.0.1 to the port, with a name if that is not empty.
func session(sni string, port uint16) *plugin.StreamCtx {
	s := &plugin.StreamCtx{SNI: sni}
	s.Client, s.Server = "127.0.0.1", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), port)
	return s
}

// streamRun says which route takes a session and what it does.
func streamRun(s *Snapshot, sni string, port uint16) string {
	c := session(sni, port)
	r := s.MatchStream(c)
	switch {
	case r == nil:
		return "none"
	case r.Fault:
		return r.ID + " fault"
	}
	r.Plan.Preread(c)
	said := []string{r.ID}
	for _, name := range []string{"tag", "gate"} {
		if v, ok := c.Var(name); ok {
			said = append(said, name+" "+v)
		}
	}
	if u := s.StreamUpstream(r, ""); u != nil {
		said = append(said, strings.Join(u.Nodes(), ","))
	}
	return strings.Join(said, " ")
}

func TestStreamNames(t *testing.T) {
	b := newStreamBench(t, new(live))
	for id, sni := range map[string]string{"exact": "x.Y.a.com.", "near": "*.y.a.com", "far": "*.a.com", "all": "*"} {
		b.put("stream_routes/"+id, fmt.Sprintf(`{"sni":%q,%s}`, sni, node))
	}
	b.put("stream_routes/none", `{`+node+`}`)
	for sni, want := range map[string]string{
		"x.y.a.com": "exact", "X.Y.A.com.": "exact", "z.y.a.com": "near", "1.2.y.a.com": "near", "y.a.com": "far", "a.com": "all", "b": "all", "": "none",
	} {
		if r := b.Current().MatchStream(session(sni, 1)); r == nil || r.ID != want {
			t.Errorf("%s: %v, want %s", sni, r, want)
		}
	}
	b.del("stream_routes/all", "stream_routes/exact")
	for sni, want := range map[string]string{"x.y.a.com": "near", "b": "none"} {
		if r := b.Current().MatchStream(session(sni, 1)); r == nil || r.ID != want {
			t.Errorf("%s: %v, want %s", sni, r, want)
		}
	}
}

// TestStreamIncremental: what a change does not touch keeps its compiled form.
func TestStreamIncremental(t *testing.T) {
	b := newStreamBench(t, new(live))
	b.put("services/s", `{"plugins":{"tag":{"v":1}},`+node+`}`, "upstreams/u", `{"nodes":{"127.0.0.1:1":1}}`,
		"stream_routes/1", `{"server_port":1,"service_id":"s"}`, "stream_routes/2", `{"server_port":2,"upstream_id":"u"}`)
	two := b.Current().MatchStream(session("", 2))
	b.put("upstreams/u", `{"nodes":{"127.0.0.1:2":1}}`, "stream_routes/2", `{"server_port":2,"upstream_id":"u","update_time":1}`)
	if b.Current().MatchStream(session("", 2)) != two {
		t.Error("an upstream's change compiled the route again")
	}
	if got := streamRun(b.Current(), "", 2); got != "2 127.0.0.1:2" {
		t.Error(got)
	}
	b.put("services/s", `{"plugins":{"tag":{"v":2},"other":{}},`+node+`}`)
	if got := streamRun(b.Current(), "", 1); !strings.HasPrefix(got, "1 tag services/s=1") {
		t.Errorf("a service that does not compile changed its route: %s", got)
	}
	b.put("services/s", `{"plugins":{"tag":{"v":2}},`+node+`}`)
	if got := streamRun(b.Current(), "", 1); !strings.HasPrefix(got, "1 tag services/s=2") {
		t.Error(got)
	}
	if b.Current().MatchStream(session("", 2)) != two {
		t.Error("a service's change compiled another route again")
	}
	if b.Current().Count(model.KindStreamRoute) != 2 {
		t.Error("objects are not counted")
	}
}

func TestStreamFaults(t *testing.T) {
	b := newStreamBench(t, new(live))
	for _, c := range []struct{ name, doc, run, fault string }{
		{"no guard", `{"plugins":{"tag":{"v":-1}},` + node + `}`, "none", "failed to check the configuration of stream plugin [tag]: v is negative"},
		{"a guard", `{"plugins":{"gate":{"v":-1}},` + node + `}`, "1 fault", "failed to check the configuration of stream plugin [gate]: v is negative"},
		{"unknown", `{"plugins":{"some":{}},` + node + `}`, "1 fault", "unknown plugin [some]"},
		{"xRPC", `{"protocol":{"name":"redis"},` + node + `}`, "1 fault", "protocol [redis] is not supported by this version of Weir yet"},
		{"below another", `{"protocol":{"name":"redis","superior_id":"2"},` + node + `}`, "none", "protocol [redis] is not supported by this version of Weir yet"},
		{"no protocol", `{"protocol":{"name":"xxx"},` + node + `}`, "none", "unknown protocol [xxx]"},
		{"no service", `{"service_id":"s"}`, "1 fault", ""},
		{"no document", `[]`, "none", "wrong type: expected object, got array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.put("stream_routes/1", c.doc)
			fault := ""
			if err := b.Current().Fault(keyOf("stream_routes/1")); err != nil {
				fault = err.Error()
			}
			if got := streamRun(b.Current(), "", 1); got != c.run || fault != c.fault {
				t.Errorf("%s, %q", got, fault)
			}
			if err := b.Check(model.Object{Key: keyOf("stream_routes/1"), Raw: []byte(c.doc)}); (err == nil) != (c.fault == "") {
				t.Errorf("Check: %v", err)
			}
			b.put("stream_routes/1", `{"plugins":{"tag":{"v":3}},`+node+`}`)
			b.put("stream_routes/1", c.doc)
			after := "1 tag stream_routes/1=3" // the last good form, but never without a guard that is asked for
			if c.name == "a guard" || c.name == "unknown" {
				after = "1 fault"
			}
			if got := streamRun(b.Current(), "", 1); c.fault != "" && !strings.HasPrefix(got, after) {
				t.Errorf("after a good form: %s", got)
			}
			b.del("stream_routes/1")
			if err := b.Current().Fault(keyOf("stream_routes/1")); err != nil {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

// TestStreamServiceClosed: a stream route does not run on without a guard that its
// service is meant to have now. Guards of requests are none of its own.
func TestStreamServiceClosed(t *testing.T) {
	b := newStreamBench(t, new(live))
	b.put("services/s", `{"plugins":{"tag":{"v":1}},`+node+`}`, "stream_routes/1", `{"service_id":"s"}`)
	for _, c := range []struct{ plugins, run string }{
		{`"tag":{"v":-1}`, "1 tag services/s=1"},
		{`"tag":{"v":-1},"key-auth":{}`, "1 tag services/s=1"},
		{`"gate":{"v":-1}`, "1 fault"},
		{`"gate":{"v":2}`, "1 gate services/s=2"},
		{`"gate":{"v":-1}`, "1 gate services/s=2"},
	} {
		b.put("services/s", `{"plugins":{`+c.plugins+`},`+node+`}`)
		if got := streamRun(b.Current(), "", 1); !strings.HasPrefix(got, c.run) {
			t.Errorf("%s: %s, want %s", c.plugins, got, c.run)
		}
	}
}

// TestStreamPluginsChosen: plugins that are switched off do not run, and a route
// is never open without its guard.
func TestStreamPluginsChosen(t *testing.T) {
	b := newStreamBench(t, new(live))
	b.put("stream_routes/1", `{"plugins":{"tag":{"v":1}},`+node+`}`, "stream_routes/2", `{"server_port":2,"plugins":{"gate":{"v":2}},`+node+`}`)
	b.del("stream_routes/none")
	b.put("plugins/", `[{"name":"tag"},{"name":"gate","stream":false}]`)
	if got := streamRun(b.Current(), "", 1); strings.Contains(got, "tag") {
		t.Error(got)
	}
	b.put("stream_routes/1", `{"server_port":1,`+node+`}`)
	if got := streamRun(b.Current(), "", 2); got != "2 fault" {
		t.Error(got)
	}
	b.put("plugins/", `[{"name":"gate","stream":true}]`)
	if got := streamRun(b.Current(), "", 2); !strings.HasPrefix(got, "2 gate stream_routes/2=2") {
		t.Error(got)
	}
	if names := b.Current().StreamPlugins(); len(names) != 1 || names[0].Name != "gate" {
		t.Errorf("%v", names)
	}
}

// TestStreamChosenOfService: a plugin that is switched on again runs for a route
// that has it from the service of its last good form.
func TestStreamChosenOfService(t *testing.T) {
	b := newStreamBench(t, new(live))
	b.put("services/s", `{"plugins":{"tag":{"v":1}},`+node+`}`, "stream_routes/1", `{"service_id":"s"}`)
	b.put("stream_routes/1", `{"protocol":{"name":"xxx"},`+node+`}`)
	b.put("plugins/", `[{"name":"gate","stream":true}]`)
	if got := streamRun(b.Current(), "", 1); strings.Contains(got, "tag") {
		t.Error(got)
	}
	b.put("plugins/", `[{"name":"gate","stream":true},{"name":"tag","stream":true}]`)
	if got := streamRun(b.Current(), "", 1); !strings.HasPrefix(got, "1 tag services/s=1") {
		t.Error(got)
	}
}

// TestStreamDifferential: after random changes the state is that of one made from
// what is stored.
func TestStreamDifferential(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := newStreamBench(t, new(live))
	stored := map[string]model.Object{}
	for step := range 120 {
		path := fmt.Sprintf("stream_routes/%d", rnd.IntN(6))
		if rnd.IntN(4) == 0 {
			path = fmt.Sprintf("services/%d", rnd.IntN(2))
		}
		if rnd.IntN(5) == 0 {
			b.del(path)
			delete(stored, path)
		} else {
			b.put(path, randomStream(rnd, path))
			stored[path], _ = b.Current().Object(keyOf(path))
		}
		fresh := newStreamBench(t, new(live))
		var all []model.Object
		for _, o := range stored {
			all = append(all, o)
		}
		fresh.Apply(model.Delta{Revision: b.revision, Put: all})
		for _, sni := range []string{"", "a.com", "x.a.com"} {
			for port := range uint16(3) {
				got, want := streamRun(b.Current(), sni, port), streamRun(fresh.Current(), sni, port)
				if got != want {
					t.Fatalf("step %d, %s, %q:%d: %s, from scratch %s", step, path, sni, port, got, want)
				}
			}
		}
	}
}

func randomStream(rnd *rand.Rand, path string) string {
	parts := []string{fmt.Sprintf(`"plugins":{"tag":{"v":%d}}`, rnd.IntN(4))}
	if rnd.IntN(2) == 0 {
		parts = append(parts, node)
	}
	if strings.HasPrefix(path, "services/") {
		return "{" + strings.Join(parts, ",") + "}"
	}
	more := []string{`"sni":"a.com"`, `"sni":"*.a.com"`, `"service_id":"0"`, `"service_id":"1"`, `"server_port":1`, `"server_port":2`, `"remote_addr":"127.0.0.2"`}
	for i := range more {
		if rnd.IntN(4) == 0 && !slices.ContainsFunc(parts, func(p string) bool { return p[:8] == more[i][:8] }) {
			parts = append(parts, more[i])
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
