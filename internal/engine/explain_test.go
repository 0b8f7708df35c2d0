package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/plugins/basicauth"
	"weir/internal/plugins/keyauth"
	"weir/internal/plugins/multiauth"
	"weir/internal/router"
	"weir/internal/weirtest"
)

// phased is the configuration of test plugins that have the phases whose bits are
// set and let everything pass.
type phased struct {
	Phases int    `json:"phases" doc:"Bits of phases."`
	Secret string `json:"secret" schema:"secret" doc:"Not to be shown."`
}

type passing struct{}

func (passing) Write(p []byte, _ bool) []byte { return p }

func phasedPlugin(name string, priority int, preferRoute bool) plugin.Spec {
	return plugin.Define(plugin.Meta{Name: name, Priority: priority, PreferRoute: preferRoute},
		func(c *phased, _ plugin.Env) (p plugin.Phases, err error) {
			pass := func(*plugin.Ctx) *plugin.Reply { return nil }
			see := func(*plugin.Ctx) {}
			filter := func(*plugin.Ctx) plugin.BodyFilter { return passing{} }
			for i, set := range []func(){
				func() { p.Rewrite = pass }, func() { p.Access = pass }, func() { p.BeforeProxy = pass },
				func() { p.Header = see }, func() { p.Body = filter }, func() { p.Encode = filter }, func() { p.Log = see },
			} {
				if c.Phases>>i&1 == 1 {
					set()
				}
			}
			return p, nil
		})
}

// phasedPlugins have neighbours of equal priority among them, and some that global
// rules leave to the route.
func phasedPlugins() []plugin.Spec {
	all := []plugin.Spec{keyauth.Plugin}
	for i := range 6 {
		all = append(all, phasedPlugin(fmt.Sprint("p", i), 3000-i/2*400, i%3 == 0))
	}
	return all
}

// drawn are the random objects of a state.
type drawn struct {
	*rand.Rand
	node string
}

// plugins draws a set of plugins, perhaps empty.
func (d drawn) plugins(more ...string) string {
	list := more
	for i := range 6 {
		if d.IntN(3) == 0 {
			list = append(list, fmt.Sprintf(`"p%d":{"phases":%d}`, i, d.IntN(128)))
		}
	}
	return `"plugins":{` + strings.Join(list, ",") + `}`
}

func (d drawn) pick(from ...string) string { return from[d.IntN(len(from))] }

// objects draws a whole state.
func (d drawn) objects() (list []string) {
	upstream := fmt.Sprintf(`"upstream":{"nodes":{%q:1}}`, d.node)
	list = append(list,
		"global_rules/1", "{"+d.plugins()+"}",
		"services/1", "{"+d.plugins()+","+upstream+"}",
		"plugin_configs/1", "{"+d.plugins()+"}",
		"consumer_groups/1", "{"+d.plugins()+"}",
		"consumers/jack", `{"username":"jack",`+d.pick(`"group_id":"1",`, "")+d.plugins(`"key-auth":{"key":"k-jack"}`)+"}",
	)
	for i := range 5 {
		auth := []string(nil)
		if d.IntN(2) == 0 {
			auth = []string{`"key-auth":{}`}
		}
		list = append(list, fmt.Sprint("routes/", i), "{"+strings.Join([]string{
			fmt.Sprintf(`"uri":%q`, d.pick("/a", "/a/*", "/*", "/b")),
			d.pick(`"host":"a.test"`, `"host":"*.test"`, `"name":"any"`),
			d.pick(`"methods":["GET"]`, `"methods":["POST"]`, `"priority":1`, `"desc":""`),
			d.pick(`"vars":[["arg_x","==","1"]]`, `"status":1`, `"remote_addr":"10.0.0.0/8"`, `"status":1`),
			d.pick(`"service_id":"1"`, upstream, `"service_id":"1","plugin_config_id":"1"`, upstream+`,"plugin_config_id":"1"`, `"labels":{"a":"b"}`),
			d.plugins(auth...),
		}, ",")+"}")
	}
	return list
}

// TestExplainedIsWhatRuns: for random states and requests the explained functions
// are those that run, in their order.
func TestExplainedIsWhatRuns(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	trace := new(weirtest.Trace)
	ended := make(chan struct{}, 1)
	g.AccessLog = func(*plugin.Ctx) { ended <- struct{}{} }
	matched := 0
	for seed := range uint64(150) {
		d := drawn{rand.New(rand.NewPCG(seed, 7)), up.addr}
		g.put(d.objects()...)
		for range 4 {
			q := Question{
				Method: "GET", Target: d.pick("/a", "/a/b", "/b", "/c", "/a?x=1"), Host: d.pick("a.test", "b.test", "c"), Key: "k-jack",
				Header: [][2]string{{"apikey", "k-jack"}},
			}
			plans, said := g.explain(q)
			trace.Watch(plans[:]...)
			c := g.dial()
			c.send("GET %s HTTP/1.1\r\nHost: %s\r\napikey: k-jack\r\nConnection: close\r\n\r\n", q.Target, q.Host)
			answer, _ := c.answer("GET")
			status := fmt.Sprint(answer.StatusCode)
			<-ended
			c.Close() // a long run has more than there are descriptors
			var want []string
			for _, call := range said.Calls {
				want = append(want, call.Plugin+" "+call.Phase+" "+call.From)
			}
			if ran := trace.Take(); !slices.Equal(ran, want) {
				t.Fatalf("seed %d, %+v, status %s:\nran       %q\nexplained %q", seed, q, status, ran, want)
			}
			if said.Route != nil {
				matched++
			}
			if said.Status != 0 && fmt.Sprint(said.Status) != status {
				t.Errorf("seed %d, %+v: status %s, explained %d", seed, q, status, said.Status)
			}
			checkCandidates(t, said)
		}
	}
	if matched < 100 {
		t.Errorf("only %d requests matched a route", matched)
	}
}

func checkCandidates(t *testing.T, said *Explanation) {
	t.Helper()
	for i, c := range said.Candidates {
		last := i == len(said.Candidates)-1
		if c.Chosen != (c.Why == "") || c.Chosen && (!last || said.Route == nil || said.Route.ID != c.ID) {
			t.Errorf("candidate %d of %+v, route %v", i, said.Candidates, said.Route)
		}
	}
}

// explain explains and returns the plans, too.
func (g *gateway) explain(q Question) (plans [4]*plan.Plan, said *Explanation) {
	g.t.Helper()
	said, err := g.Explain(g.t.Context(), q)
	if err != nil {
		g.t.Fatal(err)
	}
	x := new(exchange)
	x.init(g.Engine, nil, upload{})
	defer x.close()
	if err := x.ask(q); err != nil {
		g.t.Fatal(err)
	}
	snap := x.pin.Take()
	defer x.pin.Drop()
	x.ctx.Index = snap
	x.identify()
	x.readPath()
	x.explainRoute(g.t.Context(), snap, q, new(Explanation))
	return x.run.Plans(), said
}

func TestExplanation(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	g.put(
		"global_rules/g", `{"plugins":{"p0":{"phases":1}}}`,
		"services/s", fmt.Sprintf(`{"name":"svc","plugins":{"p1":{"phases":2,"secret":"hush"}},"upstream":{"nodes":{%q:1},"retries":2,"timeout":{"connect":1,"send":2,"read":3}}}`, up.addr),
		"routes/post", `{"uri":"/a","methods":["POST"],"service_id":"s"}`,
		"routes/vars", `{"uri":"/a","priority":-1,"vars":[["arg_x","==","1"]],"service_id":"s"}`,
		"routes/r", `{"uri":"/*","name":"all","service_id":"s","plugins":{"key-auth":{},"p0":{"phases":3}}}`,
		"consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k-jack"},"p1":{"phases":64,"secret":"also"}}}`,
	)
	_, said := g.explain(Question{Target: "//a/../a", Host: "x", Consumer: "jack", Client: "192.0.2.1"})
	if said.Request != (Asked{"GET", "x", "/a", "", "192.0.2.1"}) {
		t.Errorf("request %+v", said.Request)
	}
	want := []Candidate{
		{"post", "", "/a", "", "the method is not among its methods", false},
		{"vars", "", "/a", "", "its vars do not hold", false},
		{"r", "all", "/*", "", "", true},
	}
	if !slices.Equal(said.Candidates, want) {
		t.Errorf("candidates %+v", said.Candidates)
	}
	if said.Route == nil || *said.Route != (Named{"r", "all"}) || said.Service == nil || *said.Service != (Named{"s", "svc"}) || said.Consumer != "jack" {
		t.Errorf("%+v", said)
	}
	if u := said.Upstream; u == nil || u.From != "services/s" || u.Nodes[0] != up.addr || u.Retries != 2 || u.Connect != "1s" || u.Read != "3s" {
		t.Errorf("upstream %+v", u)
	}
	var calls []string
	for _, c := range said.Calls {
		calls = append(calls, c.Phase+" "+c.Plugin+" "+c.From)
	}
	if got := strings.Join(calls, ", "); got != "rewrite p0 routes/r, rewrite key-auth routes/r, access p0 routes/r, log p1 consumers/jack" {
		t.Errorf("calls %s", got)
	}
	replaced := map[string]bool{}
	for _, c := range said.Plugins {
		replaced[c.Plugin+" of "+c.From] = c.Replaced
		if strings.Contains(string(c.Config), "hush") || strings.Contains(string(c.Config), "also") {
			t.Errorf("a secret is shown: %s", c.Config)
		}
	}
	if !replaced["p0 of global_rules/g"] || !replaced["p1 of services/s"] || replaced["p1 of consumers/jack"] || replaced["p0 of routes/r"] {
		t.Errorf("replaced %v", replaced)
	}
}

// What suits a request and is met by none is named, with the reason.
func TestExplainLeftOut(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	g.put(
		"services/s", fmt.Sprintf(`{"hosts":["s.test"],"upstream":{"nodes":{%q:1}}}`, up.addr),
		"routes/off", `{"uris":["/a","/*"],"name":"was","status":0,"service_id":"s"}`,
		"routes/broken", `{"uri":"/a","plugins":{"p1":{"phases":"none"}}}`,
		"routes/later", `{"uri":"/a","status":0,"vars":[["arg_x","==","1"]]}`,
		"routes/post", `{"uri":"/a","status":0,"methods":["POST"]}`,
		"routes/other", `{"uri":"/a","status":0,"host":"other.test"}`,
	)
	for target, want := range map[string][]Candidate{
		"/a": {
			{"off", "was", "/a", "s.test", "it is disabled (status 0)", false},
			{"broken", "", "/a", "", "it does not run as it is stored: see GET /v1/status", false},
		},
		"/b": {{"off", "was", "/*", "s.test", "it is disabled (status 0)", false}},
		"/a?x=1": {
			{"off", "was", "/a", "s.test", "it is disabled (status 0)", false},
			{"broken", "", "/a", "", "it does not run as it is stored: see GET /v1/status", false},
			{"later", "", "/a", "", "it is disabled (status 0)", false},
		},
	} {
		_, said := g.explain(Question{Target: target, Host: "s.test"})
		if said.Status != 404 || len(said.Candidates) != 0 || !slices.Equal(said.LeftOut, want) {
			t.Errorf("%s: %+v", target, said)
		}
	}
}

// However many routes suit a request, an explanation has an end, and says so.
func TestExplainBounds(t *testing.T) {
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	var objects []string
	for i := range maxCandidates + 50 {
		objects = append(objects, fmt.Sprint("routes/off", i), `{"uri":"/a","status":0}`, fmt.Sprint("routes/other", i), `{"uri":"/a","methods":["POST"]}`)
	}
	g.put(objects...)
	_, said := g.explain(Question{Target: "/a"})
	if len(said.LeftOut) != maxCandidates || !said.MoreLeftOut || len(said.Candidates) != maxCandidates || !said.More {
		t.Errorf("%d left out, more %t, %d candidates, more %t", len(said.LeftOut), said.MoreLeftOut, len(said.Candidates), said.More)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if said, err := g.Explain(over, Question{Target: "/a"}); !errors.Is(err, context.Canceled) || len(said.Candidates)+len(said.LeftOut) > 0 {
		t.Errorf("after the end: %v, %+v", err, said)
	}
}

// A key counts for the plugins in multi-auth, too; without a caller that is said.
func TestExplainCaller(t *testing.T) {
	g := startPlugins(t, router.HostURI, nil, append(phasedPlugins(), multiauth.Plugin, basicauth.Plugin))
	g.put(
		"routes/r", `{"uri":"/m","plugins":{"multi-auth":{"auth_plugins":[{"basic-auth":{}},{"key-auth":{}}]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
		"routes/open", `{"uri":"/open"}`,
		"consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k-jack"}}}`,
	)
	for _, c := range []struct {
		q              Question
		consumer, note string
	}{
		{Question{Target: "/m", Key: "k-jack"}, "jack", ""},
		{Question{Target: "/m", Key: "other"}, "", "no consumer has this key"},
		{Question{Target: "/m"}, "", "without a consumer"},
		{Question{Target: "/open"}, "", "there is no upstream"},
		{Question{Target: "/open", Consumer: "none"}, "", "there is no such consumer"},
	} {
		_, said := g.explain(c.q)
		if notes := strings.Join(said.Notes, "; "); said.Consumer != c.consumer || !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
			t.Errorf("%+v: consumer %q, notes %s", c.q, said.Consumer, notes)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	g := startPlugins(t, router.HostURI, nil, phasedPlugins())
	for _, q := range []Question{{}, {Target: "http://x/"}, {Target: "/", Client: "me"}, {Target: "/", Consumer: "a", Key: "b"}} {
		if _, err := g.Explain(g.t.Context(), q); err == nil {
			t.Errorf("%+v is explained", q)
		}
	}
	if _, said := g.explain(Question{Target: "/%zz"}); said.Status != 400 {
		t.Errorf("status %d", said.Status)
	}
}
