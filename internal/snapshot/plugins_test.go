package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/upstream"
)

// newChosen makes an applier whose config.yaml enables some of the plugins tag,
// gate (a guard), pair and show (a plugin with an API).
func newChosen(t *testing.T, strict bool, s Selection) *bench {
	l := new(live)
	pools := upstream.NewPools()
	show := plugin.Define(plugin.Meta{Name: "show", Priority: 1, Doc: "Test plugin."},
		func(*tagConf, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
		plugin.Endpoints(func(env plugin.Env) []plugin.Endpoint {
			path := "/show"
			if env.Attr != nil {
				json.Unmarshal(env.Attr, &path)
			}
			return []plugin.Endpoint{{Methods: []string{"GET"}, Path: path, Serve: func(*plugin.Ctx) *plugin.Reply { return nil }}}
		}))
	public := plugin.Define(plugin.Meta{Name: "public-api", Priority: 2, Doc: "Test plugin."},
		func(_ *tagConf, env plugin.Env) (plugin.Phases, error) {
			found := fmt.Sprint(env.Endpoint("GET", "/show") != nil, env.Endpoint("GET", "/other") != nil)
			return plugin.Phases{Access: func(x *plugin.Ctx) *plugin.Reply { x.SetReplyHeader("found", found); return nil }}, nil
		})
	a := New(Config{
		Plugins: []plugin.Spec{l.tag("tag", 10, false), l.tag("gate", 20, true), l.tag("pair", 5, false), show, public},
		Enabled: s, Strict: strict,
		Upstream: upstream.Env{Pools: pools, Log: slog.New(slog.DiscardHandler)},
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

func (b *bench) list(text string) {
	b.revision++
	b.Apply(model.Delta{Revision: b.revision, Put: []model.Object{{Key: model.Key{Kind: model.KindPlugins}, Created: 1, Modified: b.revision, Raw: []byte(text)}}})
}

func TestPluginList(t *testing.T) {
	b := newChosen(t, false, Selection{Names: []string{"tag", "gate"}})
	b.put("routes/tagged", `{"uri":"/tagged","plugins":{"tag":{"v":1},"pair":{"v":2}},`+node+`}`,
		"routes/guarded", `{"uri":"/guarded","plugins":{"gate":{"v":1}},`+node+`}`,
		"routes/plain", `{"uri":"/*",`+node+`}`,
		"services/s", `{"plugins":{"gate":{"v":3}},`+node+`}`,
		"routes/served", `{"uri":"/served","service_id":"s"}`,
		"plugin_configs/p", `{"plugins":{"gate":{"v":4}}}`,
		"routes/configured", `{"uri":"/configured","plugin_config_id":"p",`+node+`}`)
	want := func(what string, want map[string]string) {
		t.Helper()
		for path, w := range want {
			if got := run(match(b.Current(), "h", path)); got != w {
				t.Errorf("%s: %s runs %q, want %q", what, path, got, w)
			}
		}
	}
	open := map[string]string{
		"/tagged": "tag: routes/tagged=b", "/guarded": "gate: routes/guarded=b",
		"/served": "gate: services/s=d", "/configured": "gate: plugin_configs/p=e", "/x": "",
	}
	want("config.yaml's list", open)
	if got := b.compiledBy(func() { b.list(`[{"name":"pair"},{"name":"tag"},{"name":"gate"},{"name":"x","stream":true}]`) }); got != "routes=1" {
		t.Errorf("one more plugin made %q compile, want its route", got)
	}
	want("one more", map[string]string{"/tagged": "tag: routes/tagged=b, pair: routes/tagged=c"})
	if s := b.Current(); !s.Enabled("pair", false) || s.Enabled("x", false) || !s.Enabled("x", true) {
		t.Error("Enabled does not tell what the list says")
	}
	b.list(`[{"name":"pair"}]`)
	want("without guard", map[string]string{
		"/tagged": "pair: routes/tagged=c", "/guarded": "fault", "/served": "fault", "/configured": "fault", "/x": "",
	})
	b.list(`[{"name":5}]`)
	if b.Current().Fault(model.Key{Kind: model.KindPlugins}) == nil {
		t.Error("a broken list is no fault")
	}
	want("broken list", map[string]string{"/tagged": "pair: routes/tagged=c", "/guarded": "fault"})
	b.del("plugins/")
	want("list deleted", open)
	for path, err := range b.Current().Faults {
		t.Errorf("%s: %v", path, err)
	}
}

// Where objects come from a file, one that names a plugin that is not enabled
// is broken.
func TestStrictPluginList(t *testing.T) {
	b := newChosen(t, true, Selection{Names: []string{"tag"}})
	b.put("routes/tagged", `{"uri":"/tagged","plugins":{"tag":{"v":1}},`+node+`}`,
		"routes/pair", `{"uri":"/pair","plugins":{"pair":{"v":1}},`+node+`}`,
		"routes/guarded", `{"uri":"/guarded","plugins":{"gate":{"v":1}},`+node+`}`)
	for path, want := range map[string]string{"/tagged": "tag: routes/tagged=b", "/pair": "none", "/guarded": "fault"} {
		if got := run(match(b.Current(), "h", path)); got != want {
			t.Errorf("%s runs %q, want %q", path, got, want)
		}
	}
	b.list(`[{"name":"pair"},{"name":"gate"}]`)
	for path, want := range map[string]string{"/tagged": "none", "/pair": "pair: routes/pair=b", "/guarded": "gate: routes/guarded=b"} {
		if got := run(match(b.Current(), "h", path)); got != want {
			t.Errorf("other list: %s runs %q, want %q", path, got, want)
		}
	}
}

// A consumer whose own guard is switched off is nobody, and somebody again
// after.
func TestPluginListOfConsumers(t *testing.T) {
	b := newChosen(t, false, Selection{})
	b.put("consumers/jack", `{"username":"jack","plugins":{"gate":{"v":1}}}`,
		"consumer_groups/g", `{"plugins":{"gate":{"v":2}}}`,
		"consumers/jill", `{"username":"jill","group_id":"g"}`,
		"routes/r", `{"uri":"/r","plugins":{"tag":{"v":0}},`+node+`}`)
	state := func() string {
		s := b.Current()
		var out string
		for _, name := range []string{"jack", "jill"} {
			c := s.Named(name)
			if c == nil {
				out += "nobody "
				continue
			}
			out += runAs(s, match(s, "h", "/r"), c) + "; "
		}
		return out
	}
	open := "gate: consumers/jack=b, tag: routes/r=a; gate: consumer_groups/g=c, tag: routes/r=a; "
	if got := state(); got != open {
		t.Errorf("got %q, want %q", got, open)
	}
	b.list(`[{"name":"tag"}]`)
	if b.Current().Fault(model.Key{Kind: model.KindConsumer, ID: "jack"}) == nil {
		t.Error("the consumer whose guard is gone has no fault")
	}
	if got := state(); got != "nobody fault; " && got != "closed" {
		t.Errorf("without the guard: %q", got)
	}
	b.list(`[{"name":"gate"},{"name":"tag"}]`)
	if got := state(); got != open {
		t.Errorf("with the guard again: %q, want %q", got, open)
	}
}

// Settings of config.yaml that change compile what uses them, and nothing else.
func TestEnable(t *testing.T) {
	b := newChosen(t, false, Selection{Names: []string{"tag", "show", "public-api"}})
	b.put("routes/a", `{"uri":"/a","plugins":{"public-api":{}}}`, "routes/b", `{"uri":"/b","plugins":{"tag":{}},`+node+`}`)
	found := func(want string) {
		t.Helper()
		if got := run(match(b.Current(), "h", "/a")); got != "found: "+want {
			t.Errorf("got %q, want found: %s", got, want)
		}
	}
	found("true false")
	s := Selection{Names: []string{"tag", "show", "public-api"}, Attr: map[string]json.RawMessage{"show": json.RawMessage(`"/other"`)}}
	before := b.Current().Revision
	if got := b.compiledBy(func() { b.Enable(s) }); got != "routes=1" {
		t.Errorf("compiled %q", got)
	}
	found("false true")
	if b.Current().Revision != before {
		t.Error("the revision of the store changed")
	}
	if got := b.compiledBy(func() { b.Enable(s) }); got != "" {
		t.Errorf("the same again compiled %q", got)
	}
	b.Enable(Selection{Names: []string{"tag", "public-api"}})
	found("false false")
}

// An object whose source says what is wrong with it is as one that does not
// compile.
func TestFaultOfSource(t *testing.T) {
	b := newChosen(t, false, Selection{})
	wrong := errors.New("wrong")
	put := func(path, raw string, fault error) {
		b.revision++
		b.Apply(model.Delta{Revision: b.revision, Put: []model.Object{{Key: keyOf(path), Created: 1, Modified: b.revision, Raw: []byte(raw), Fault: fault}}})
	}
	objects := []struct{ path, good, other string }{
		{"routes/r", `{"uri":"/r","plugins":{"gate":{"v":1}},"service_id":"s"}`, `{"uri":"/r2","plugins":{"gate":{"v":2}},"service_id":"s"}`},
		{"services/s", `{"plugins":{"tag":{"v":1}},"upstream_id":"u"}`, `{"plugins":{"tag":{"v":2}},"upstream_id":"u"}`},
		{"upstreams/u", `{"nodes":{"127.0.0.1:1":1},"type":"roundrobin"}`, `{"nodes":{"127.0.0.1:2":1},"type":"roundrobin"}`},
		{"global_rules/g", `{"plugins":{"pair":{"v":1}}}`, `{"plugins":{"pair":{"v":2}}}`},
		{"consumers/c", `{"username":"c","plugins":{"tag":{"v":1}}}`, `{"username":"c","plugins":{"tag":{"v":2}}}`},
		{"protos/p", `{"content":"a"}`, `{"content":"b"}`},
	}
	for _, o := range objects {
		put(o.path, o.good, nil)
	}
	if r := match(b.Current(), "h", "/r"); run(r) != "gate: routes/r=b, tag: services/s=b" {
		t.Fatalf("runs %q", run(r))
	}
	for _, o := range objects {
		put(o.path, o.other, wrong)
		if err := b.Current().Fault(keyOf(o.path)); !errors.Is(err, wrong) {
			t.Errorf("%s: fault is %v", o.path, err)
		}
	}
	if r := match(b.Current(), "h", "/r"); run(r) != "gate: routes/r=b, tag: services/s=b" || match(b.Current(), "h", "/r2") != nil {
		t.Errorf("runs %q", run(r))
	}
	// A change elsewhere does not make a faulty document good.
	put("services/s", `{"plugins":{"tag":{"v":3}},"upstream_id":"u"}`, nil)
	if r := match(b.Current(), "h", "/r"); run(r) != "gate: routes/r=b, tag: services/s=d" {
		t.Errorf("runs %q", run(r))
	}
	if b.Current().Fault(keyOf("routes/r")) == nil {
		t.Error("the fault is gone")
	}
	put("routes/new", `{"uri":"/new","plugins":{"gate":{}},`+node+`}`, wrong)
	put("routes/open", `{"uri":"/open",`+node+`}`, wrong)
	if r := match(b.Current(), "h", "/new"); run(r) != "fault" {
		t.Errorf("a guarded route that is broken runs %q", run(r))
	}
	if r := match(b.Current(), "h", "/open"); r != nil {
		t.Error("an open route that is broken matches")
	}
	for _, o := range objects {
		put(o.path, o.other, nil)
	}
	for path, err := range b.Current().Faults {
		if path != "routes/new" && path != "routes/open" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An upstream that never was good is as one that is not there, unless it asks for
// what this build does not have.
func TestBrokenUpstream(t *testing.T) {
	b := newBench(t)
	for doc, want := range map[string]int{
		`{"nodes":{"127.0.0.1:1":"x"}}`: 502, `{"nodes":{"127.0.0.1:1":1},"scheme":"kafka"}`: 503, `{"nodes":{"127.0.0.1:1":1}}`: 0,
	} {
		b.del("upstreams/u")
		b.put("routes/r", `{"uri":"/r","upstream_id":"u"}`)
		if _, fault := b.Current().Upstream(match(b.Current(), "h", "/r"), ""); fault != 502 {
			t.Errorf("without: %d", fault)
		}
		for range 2 {
			b.put("upstreams/u", doc)
			if _, fault := b.Current().Upstream(match(b.Current(), "h", "/r"), ""); fault != want {
				t.Errorf("%s: %d, want %d", doc, fault, want)
			}
		}
	}
}

// Metadata that its plugin cannot use leaves the metadata before in force.
func TestBrokenMetadata(t *testing.T) {
	b := newBench(t)
	b.put("routes/r", `{"uri":"/r","plugins":{"meta":{"v":1}},`+node+`}`, "plugin_metadata/meta", `{"m":7}`)
	b.put("plugin_metadata/meta", `{"m":"seven"}`)
	if got := run(match(b.Current(), "h", "/r")); got != "meta: routes/r=1/7" {
		t.Errorf("runs %q", got)
	}
	b.put("services/x", `{}`, "routes/r", `{"uri":"/r","plugins":{"meta":{"v":2}},`+node+`}`)
	if got := run(match(b.Current(), "h", "/r")); got != "meta: routes/r=2/7" {
		t.Errorf("runs %q", got)
	}
	if b.Current().Fault(keyOf("plugin_metadata/meta")) == nil {
		t.Error("no fault")
	}
	b.put("plugin_metadata/meta", `{"m":8}`)
	if got := run(match(b.Current(), "h", "/r")); got != "meta: routes/r=2/8" || b.Current().Fault(keyOf("plugin_metadata/meta")) != nil {
		t.Errorf("runs %q", got)
	}
}
