package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
)

// compiledBy returns what f made the applier compile, by kind.
func (b *bench) compiledBy(f func()) string {
	before := b.Work().Compiled
	f()
	var out []string
	after := b.Work().Compiled
	for k := range model.KindCount {
		if n := after[k.Dir()] - before[k.Dir()]; n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", k.Dir(), n))
		}
	}
	return strings.Join(out, " ")
}

// A change costs what it changes and nothing else.
func TestWork(t *testing.T) {
	b := newBench(t)
	b.put("upstreams/u", `{"nodes":{"127.0.0.1:1":1},"type":"roundrobin"}`,
		"services/s1", `{"plugins":{"tag":{"v":1}},"upstream_id":"u"}`,
		"services/s2", `{"upstream_id":"u"}`)
	for i := range 20 {
		b.put(fmt.Sprintf("routes/%d", i), fmt.Sprintf(`{"uri":"/%d","service_id":"s%d"}`, i, 1+i%2),
			fmt.Sprintf("consumers/c%d", i), fmt.Sprintf(`{"username":"c%d","plugins":{"key-auth":{"key":"k%d"}}}`, i, i))
	}
	for _, c := range []struct {
		name string
		f    func()
		want string
	}{
		{"identical upstream", func() { b.put("upstreams/u", `{"nodes":{"127.0.0.1:1":1},"type":"roundrobin"}`) }, ""},
		{"identical route, later and reordered", func() { b.put("routes/3", `{"service_id":"s2","uri":"/3","update_time":99}`) }, ""},
		{"identical consumer, later", func() {
			b.put("consumers/c3", `{"username":"c3","plugins":{"key-auth":{"key":"k3"}},"update_time":99}`)
		}, ""},
		{"upstream", func() { b.put("upstreams/u", `{"nodes":{"127.0.0.1:2":1},"type":"roundrobin"}`) }, "upstreams=1"},
		{"consumer", func() { b.put("consumers/c3", `{"username":"c3","plugins":{"key-auth":{"key":"other"}}}`) }, "consumers=1"},
		{"route", func() { b.put("routes/3", `{"uri":"/3x","service_id":"s2"}`) }, "routes=1"},
		{"service", func() { b.put("services/s1", `{"plugins":{"tag":{"v":2}},"upstream_id":"u"}`) }, "routes=10 services=1"},
		{"delete", func() { b.del("routes/3", "consumers/c3") }, ""},
		{"other kinds", func() { b.put("protos/p", `{"content":"x"}`) }, ""},
	} {
		before, other := b.Current(), match(b.Current(), "h", "/4")
		if got := b.compiledBy(c.f); got != c.want {
			t.Errorf("%s: compiled %q, want %q", c.name, got, c.want)
		}
		after := match(b.Current(), "h", "/4")
		if touched := c.name == "service"; (after == other) == touched && c.name != "service" {
			t.Errorf("%s: route 4 was compiled again", c.name)
		}
		if match(before, "h", "/4") != other {
			t.Errorf("%s: the old state has changed", c.name)
		}
	}
	if b.Current().Find("key-auth", "k3") != nil || b.Current().Find("key-auth", "other") != nil {
		t.Error("a deleted consumer authenticates")
	}
}

func TestMerge(t *testing.T) {
	b := newBench(t)
	b.put("services/s", `{"hosts":["s.test"],"plugins":{"tag":{"v":0},"gate":{"v":0}},`+node+`}`,
		"plugin_configs/p", `{"plugins":{"tag":{"v":1}}}`,
		"routes/1", `{"uri":"/service","service_id":"s"}`,
		"routes/1b", `{"uri":"/again","service_id":"s"}`,
		"routes/2", `{"uri":"/config","service_id":"s","plugin_config_id":"p"}`,
		"routes/3", `{"uri":"/route","service_id":"s","plugin_config_id":"p","plugins":{"tag":{"v":2}}}`,
		"routes/4", `{"uri":"/off","service_id":"s","plugins":{"tag":{"v":2,"_meta":{"disable":true}}}}`,
		"routes/5", `{"uri":"/first","service_id":"s","plugins":{"tag":{"v":3,"_meta":{"priority":99}}}}`)
	for path, want := range map[string]string{
		"/service": "gate: services/s=a, tag: services/s=a",
		"/config":  "gate: services/s=a, tag: plugin_configs/p=b",
		"/route":   "gate: services/s=a, tag: routes/3=c",
		"/off":     "gate: services/s=a",
		"/first":   "tag: routes/5=d, gate: services/s=a",
	} {
		if got := run(match(b.Current(), "s.test", path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if match(b.Current(), "other.test", path) != nil {
			t.Errorf("%s: the service's host does not hold", path)
		}
	}
	if match(b.Current(), "s.test", "/service").Plan != match(b.Current(), "s.test", "/again").Plan {
		t.Error("a route that adds nothing has a plan of its own")
	}
	b.put("plugin_configs/p", `{"plugins":{"tag":{"v":7}}}`)
	if got := run(match(b.Current(), "s.test", "/config")); got != "gate: services/s=a, tag: plugin_configs/p=h" {
		t.Errorf("changed plugin config: %s", got)
	}
	b.del("plugin_configs/p")
	if got := run(match(b.Current(), "s.test", "/config")); got != "fault" {
		t.Errorf("deleted plugin config: %s", got)
	}
	b.del("services/s")
	if r := match(b.Current(), "any", "/service"); r == nil || r.Fault != 404 {
		t.Errorf("deleted service: %+v", r)
	}
}

// TestBrokenService: the routes of a service that never compiled answer 503 if it
// may have been meant to guard them, else as if it were not there.
func TestBrokenService(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, raw string
		fault     int
	}{
		{"no guard", `{"plugins":{"tag":{"v":-1}},` + node + `}`, 404},
		{"no plugin", `{"upstream":{"nodes":7}}`, 404},
		{"guard", `{"plugins":{"tag":{"v":1},"gate":{"v":-1}},` + node + `}`, 503},
		{"unknown plugin", `{"plugins":{"nobody":{}},` + node + `}`, 503},
		{"script", `{"script":"return 1",` + node + `}`, 503},
		{"unreadable plugins", `{"plugins":7,` + node + `}`, 503},
		{"no document", `{"plugins":`, 404},
	} {
		b.put("services/s", c.raw, "routes/1", `{"uri":"/1","service_id":"s"}`)
		if r := match(b.Current(), "h", "/1"); r == nil || r.Fault != c.fault {
			t.Errorf("%s: %+v, want %d", c.name, r, c.fault)
		}
		b.del("services/s")
	}
}

func TestBrokenObjects(t *testing.T) {
	b := newBench(t)
	b.put("routes/1", `{"uri":"/1","plugins":{"tag":{"v":1}},`+node+`}`, "services/s", `{"plugins":{"tag":{"v":1}},`+node+`}`,
		"routes/2", `{"uri":"/2","service_id":"s"}`, "upstreams/u", `{"nodes":{"127.0.0.1:1":1},"type":"roundrobin"}`,
		"routes/u", `{"uri":"/u","upstream_id":"u"}`)
	for _, c := range []struct{ name, path, raw, host, uri, want string }{
		{"keeps its last good form", "routes/1", `{"uri":"/1","plugins":{"tag":{"v":-1}},` + node + `}`, "h", "/1", "tag: routes/1=b"},
		{"unreadable", "routes/1", `{"uri":`, "h", "/1", "tag: routes/1=b"},
		{"service", "services/s", `{"plugins":{"tag":{"v":-1}},` + node + `}`, "h", "/2", "tag: services/s=b"},
		{"upstream", "upstreams/u", `{"nodes":`, "h", "/u", ""},
		{"never good, no guard", "routes/3", `{"uri":"/3","plugins":{"tag":{"v":-1}},` + node + `}`, "h", "/3", "none"},
		{"never good, guard", "routes/4", `{"uri":"/4","plugins":{"tag":{"v":-1},"gate":{}},` + node + `}`, "h", "/4", "fault"},
		{"unknown plugin", "routes/5", `{"uri":"/5","plugins":{"nobody":{}},` + node + `}`, "h", "/5", "fault"},
		{"not there yet", "routes/6", `{"uri":"/6","filter_func":"return true",` + node + `}`, "h", "/6", "fault"},
		{"never good, vars", "routes/8", `{"uri":"/8","vars":[["a","=","b"]],` + node + `}`, "h", "/8", "none"},
		{"never good, vars before a guard", "routes/9", `{"uri":"/9","vars":[["a","=","b"]],"plugins":{"gate":{}},` + node + `}`, "h", "/9", "fault"},
	} {
		b.put(c.path, c.raw)
		if got := run(match(b.Current(), c.host, c.uri)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if b.Current().Fault(keyOf(c.path)) == nil {
			t.Errorf("%s: no fault", c.name)
		}
	}
	if u, fault := b.Current().Upstream(match(b.Current(), "h", "/u"), ""); u == nil || fault != 0 {
		t.Errorf("the upstream's last good form is gone: %d", fault)
	}
	// A guard that is meant to be there now and cannot run is never left out.
	b.put("routes/open", `{"uri":"/open",`+node+`}`, "routes/*", `{"uri":"/*",`+node+`}`,
		"services/os", `{`+node+`}`, "routes/os", `{"uri":"/os","service_id":"os"}`,
		"plugin_configs/op", `{"plugins":{"tag":{"v":1}}}`, "routes/op", `{"uri":"/op","plugin_config_id":"op",`+node+`}`)
	for _, raw := range []string{
		`{"uri":"/open","plugins":{"frob-auth":{}},` + node + `}`,
		`{"uri":"/open","plugins":{"gate":{"v":-1}},` + node + `}`,
		`{"uri":"/open","plugins":{"gate":7},` + node + `}`,
		`{"uri":"/open","plugins":"rubbish",` + node + `}`,
		`{"uri":"/open","plugins":null,` + node + `}`,
		`{"uri":"/open","status":"x","plugins":{"gate":{}},` + node + `}`,
		`{"uri":"/open","filter_func":"function() end","plugins":{"gate":{}},` + node + `}`,
	} {
		b.put("routes/open", raw)
		if r := match(b.Current(), "h", "/open"); r == nil || r.Fault != 503 {
			t.Errorf("%s: %s", raw, run(r))
		}
	}
	b.put("routes/fresh", `{"uri":"/fresh","status":"x","plugins":{"gate":{}}}`)
	if r := match(b.Current(), "h", "/fresh"); r == nil || r.Fault != 503 {
		t.Errorf("a fresh one with a guard that cannot be read: %s", run(r))
	}
	b.put("routes/open", `{"uri":"/open","status":"x",`+node+`}`)
	if r := match(b.Current(), "h", "/open"); r == nil || r.Fault != 0 || r.ID != "open" {
		t.Errorf("broken without a guard keeps its last good form: %s", run(r))
	}
	b.put("services/os", `{"plugins":{"gate":{"v":-1}},`+node+`}`, "plugin_configs/op", `{"plugins":{"nobody":{}}}`)
	for _, path := range []string{"/os", "/op"} {
		if r := match(b.Current(), "h", path); r == nil || r.Fault != 503 {
			t.Errorf("%s: %s", path, run(r))
		}
	}
	b.put("services/os", `{"plugins":{"gate":{"v":1}},`+node+`}`, "plugin_configs/op", `{"plugins":{"tag":{"v":2}}}`)
	for _, path := range []string{"/os", "/op"} {
		if r := match(b.Current(), "h", path); r == nil || r.Fault != 0 {
			t.Errorf("mended %s: %s", path, run(r))
		}
	}
	b.put("global_rules/g", `{"plugins":{"tag":{"v":1}}}`)
	b.put("global_rules/g", `{"plugins":{"nobody":{}}}`)
	if _, open := b.Current().Global(); open {
		t.Error("a global rule that became a guard nobody knows leaves the gateway open")
	}
	b.del("global_rules/g", "routes/*")
	b.put("services/bad", `{"plugins":{"gate":{"v":-1}}}`, "routes/8", `{"uri":"/8","service_id":"bad"}`)
	if r := match(b.Current(), "h", "/8"); r == nil || r.Fault != 503 {
		t.Errorf("a route whose service never was good: %+v", r)
	}
	// The last good form follows its service; mending ends the fault.
	b.put("routes/7", `{"uri":"/7","service_id":"s","plugins":{"gate":{"v":1}}}`)
	b.put("routes/7", `{"uri":"/7","service_id":"s","plugins":{"gate":{"v":-1}}}`)
	b.put("services/s", `{"plugins":{"tag":{"v":3}},`+node+`}`)
	if got := run(match(b.Current(), "h", "/7")); got != "gate: routes/7=b, tag: services/s=d" {
		t.Errorf("last good form under a new service: %s", got)
	}
	b.put("routes/7", `{"uri":"/7","service_id":"s","plugins":{"gate":{"v":2}}}`)
	if err := b.Current().Fault(keyOf("routes/7")); err != nil {
		t.Errorf("mended, but %v", err)
	}
}

func TestConsumers(t *testing.T) {
	b := newBench(t)
	find := func(key string) string {
		c := b.Current().Find("key-auth", key)
		if c == nil {
			return ""
		}
		return c.Name + "/" + c.CredentialID + "/" + c.CustomID
	}
	expect := func(name string, keys map[string]string) {
		t.Helper()
		for key, want := range keys {
			if got := find(key); got != want {
				t.Errorf("%s: %s belongs to %q, want %q", name, key, got, want)
			}
		}
	}
	b.put("consumers/jack", `{"username":"jack","labels":{"custom_id":"7"},"plugins":{"key-auth":{"key":"own"}}}`,
		"consumers/jack/credentials/c1", `{"plugins":{"key-auth":{"key":"cred"}}}`)
	expect("created", map[string]string{"own": "jack//7", "cred": "jack/c1/7", "none": ""})

	b.put("consumers/jack", `{"username":"jack","labels":{"custom_id":"8"},"plugins":{"key-auth":{"key":"new"}}}`) // cases 62, 77
	expect("changed", map[string]string{"own": "", "new": "jack//8", "cred": "jack/c1/8"})

	b.del("consumers/jack")
	expect("deleted, its credential left", map[string]string{"new": "", "cred": ""})
	b.put("consumers/jack", `{"username":"jack"}`) // case 76
	expect("created again", map[string]string{"new": "", "cred": "jack/c1/"})
	b.del("consumers/jack/credentials/c1")
	expect("credential deleted", map[string]string{"cred": ""})

	b.put("consumers/ref", `{"username":"ref","plugins":{"key-auth":{"key":"$ENV://MISSING"}}}`) // case 84
	expect("reference", map[string]string{"$ENV://MISSING": ""})
	if b.Current().Fault(keyOf("consumers/ref")) == nil {
		t.Error("an unresolved reference is no fault")
	}
	if c := b.Current().Named("ref"); c == nil || c.Name != "ref" {
		t.Errorf("named: %+v", c)
	}
	var all []string
	for i := range 20 { // case 83
		all = append(all, fmt.Sprintf("consumers/a%d", i), fmt.Sprintf(`{"username":"a%d","plugins":{"key-auth":{"key":"auth-%d"}}}`, i, i))
	}
	b.put(all...)
	for i := range 20 {
		expect("many", map[string]string{fmt.Sprintf("auth-%d", i): fmt.Sprintf("a%d//", i)})
	}
}

// Two owners of one key: the older holds it, whatever the order of arrival.
func TestDisputedKeys(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		b := newBench(t)
		older := model.Object{Key: keyOf("consumers/z"), Created: 5, Modified: 5, Raw: []byte(`{"username":"z","plugins":{"key-auth":{"key":"k"}}}`)}
		newer := model.Object{Key: keyOf("consumers/a"), Created: 9, Modified: 9, Raw: []byte(`{"username":"a","plugins":{"key-auth":{"key":"k"}}}`)}
		put := []model.Object{older, newer}
		if reverse {
			put = []model.Object{newer, older}
		}
		for _, o := range put {
			b.Apply(model.Delta{Revision: o.Modified, Put: []model.Object{o}})
		}
		s := b.Current()
		if c := s.Find("key-auth", "k"); c == nil || c.Name != "z" {
			t.Errorf("reverse=%v: %+v holds the key", reverse, c)
		}
		if s.Fault(older.Key) == nil || s.Fault(newer.Key) == nil {
			t.Errorf("reverse=%v: not flagged", reverse)
		}
		b.del("consumers/z")
		s = b.Current()
		if c := s.Find("key-auth", "k"); c == nil || c.Name != "a" || s.Fault(newer.Key) != nil {
			t.Errorf("reverse=%v: the other does not follow: %+v, fault %v", reverse, c, s.Fault(newer.Key))
		}
		b.del("consumers/a")
		if b.Current().Find("key-auth", "k") != nil {
			t.Error("a key without owner authenticates")
		}
	}
}

func TestWait(t *testing.T) {
	b := newBench(t)
	if err := b.Wait(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := b.Wait(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- b.Wait(context.Background(), 7) }()
	b.Apply(model.Delta{Revision: 6})
	select {
	case err := <-done:
		t.Fatalf("returned at revision 6: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	b.Apply(model.Delta{Revision: 8}) // nothing in it but progress
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(b.waiting.list) != 0 {
		t.Errorf("%d waiters left", len(b.waiting.list))
	}
}

// What a request has pinned is closed only after it.
func TestRetirement(t *testing.T) {
	b := newBench(t)
	b.put("routes/1", `{"uri":"/1","plugins":{"tag":{"v":1}},`+node+`}`)
	pin := b.NewPin()
	defer b.FreePin(pin)
	s := pin.Take()
	for i := range 10 {
		b.put("routes/1", fmt.Sprintf(`{"uri":"/1","plugins":{"tag":{"v":%d}},%s}`, i, node))
	}
	time.Sleep(3 * retirePause)
	if got := run(match(s, "h", "/1")); got != "tag: routes/1=b" {
		t.Errorf("pinned state: %s", got)
	}
	if n := b.live.n.Load(); n < 2 {
		t.Errorf("%d open: the pinned plan was closed", n)
	}
	pin.Drop()
	for b.live.n.Load() != 1 {
		time.Sleep(time.Millisecond)
	}
}

func TestCheck(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ path, raw, want string }{
		{"routes/1", `{"uri":"/","plugins":{"tag":{"v":1}},` + node + `}`, ""},
		{"routes/1", `{"uri":"/","plugins":{"tag":{"v":-1}}}`, "failed to check the configuration of plugin tag err: v is negative"},
		{"routes/1", `{"uri":"/","plugins":{"nobody":{}}}`, "unknown plugin [nobody]"},
		{"routes/1", `{"uri":"/","script":"return {}"}`, "not supported yet"},
		{"routes/1", `{"uri":"/","vars":[["a","==","b"]]}`, ""},
		{"routes/1", `{"uri":"/","vars":[["a","=","b"]]}`, "failed to validate the 'vars' expression: invalid operator '='"},
		{"routes/1", `{"uri":"/","plugins":{"tag":{"_meta":{"filter":[["a","=","b"]]}}}}`, "failed to validate the 'vars' expression: invalid operator '='"},
		{"services/1", `{"plugins":{"gate":{"v":-1}}}`, "v is negative"},
		{"upstreams/1", `{"type":"roundrobin","scheme":"quic","nodes":{"a:1":1}}`, "not supported yet"},
		{"consumers/a", `{"username":"a","plugins":{"key-auth":{}}}`, `property "key" is required`},
		{"consumers/a", `{"username":"a","plugins":{"key-auth":{"key":"k"},"tag":{"v":-1}}}`, "v is negative"},
	} {
		k := keyOf(c.path)
		err := b.Check(model.Object{Key: k, Raw: []byte(c.raw)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.path, c.raw, err, c.want)
		}
	}
	if n := b.live.n.Load(); n != 0 {
		t.Errorf("%d configurations left open", n)
	}
	if w := b.Work().Compiled; maps.Values(w) == nil || w["routes"] != 0 {
		t.Errorf("checking counted as applying: %v", w)
	}
}

// listOf are so many texts of a form, as JSON.
func listOf(n int, form string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"`+form+`"`, i)
	}
	return "[" + b.String()[1:] + "]"
}

// Hosts are multiplied by paths: of one document of a megabyte the router held hundreds
// of gigabytes. Such a route does not run, by whatever way it becomes one.
func TestPlacesAreBounded(t *testing.T) {
	b := newBench(t)
	wide := `{"hosts":` + listOf(600, "h%d.test") + `,"uris":` + listOf(600, "/p%d") + `,"plugins":{"gate":{"v":1}},` + node + `}`
	if err := b.Check(model.Object{Key: keyOf("routes/1"), Raw: []byte(wide)}); err == nil || !strings.Contains(err.Error(), "600 hosts with 600 uris are 360000 places") {
		t.Errorf("check: %v", err)
	}
	b.put("routes/1", wide)
	if r := match(b.Current(), "h1.test", "/p1"); r != nil {
		t.Errorf("a wide route runs: %+v", r)
	}
	b.put("services/s", `{"hosts":["h1.test"],`+node+`}`, "routes/2", `{"uris":`+listOf(600, "/p%d")+`,"service_id":"s"}`)
	if r := match(b.Current(), "h1.test", "/p1"); r == nil || r.Fault != 0 {
		t.Errorf("a route of one host: %+v", r)
	}
	b.put("services/s", `{"hosts":`+listOf(600, "h%d.test")+`,`+node+`}`)
	if r := match(b.Current(), "h1.test", "/p1"); r == nil || r.Fault != 0 {
		t.Errorf("its last good form: %+v", r)
	}
	faults := maps.Collect(b.Current().Faults)
	for _, path := range []string{"routes/1", "routes/2"} {
		if err := faults[path]; err == nil || !strings.Contains(err.Error(), "360000 places") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Field report 32: what comes in one delta is seen at once or not at all.
func TestDeltaIsAtomic(t *testing.T) {
	b := newBench(t)
	specific, general := `{"uri":"/api/*",`+node+`}`, `{"uri":"/*",`+node+`}`
	b.put("routes/a", specific, "routes/b", general)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			pin := b.NewPin()
			defer b.FreePin(pin)
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := pin.Take()
				if r := match(s, "h", "/api/x"); r != nil && r.ID != "a" {
					t.Errorf("the specific route's request went to %s", r.ID)
				}
				pin.Drop()
			}
		})
	}
	for range 200 {
		b.del("routes/a", "routes/b")
		b.put("routes/b", general, "routes/a", specific)
	}
	close(stop)
	wg.Wait()
}
