package batcher

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/policies/apicast"
	"weir/internal/policies/caching"
	"weir/internal/policies/ratelimitheaders"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A gateway is one product behind the batcher.
type gateway struct {
	t       testing.TB
	backend *threescaletest.Backend
	runtime *threescale.Runtime
	product *threescale.Product
	env     plugin.Env
	phases  []plugin.Phases
}

func newGateway(t testing.TB, s threescale.Settings, conf string, more ...plugin.Spec) *gateway {
	t.Helper()
	g := &gateway{t: t, backend: threescaletest.NewBackend(t)}
	g.runtime = threescaletest.RuntimeOf(s, time.Now)
	g.product = threescaletest.Product(t, g.runtime, fmt.Sprintf(`{"id":42,"backend_version":1,
		"backend_authentication_type":"service_token","backend_authentication_value":"token","proxy":{
		"api_backend":"http://api.test","backend":{"endpoint":%q},"proxy_rules":[
		{"http_method":"GET","pattern":"/a","metric_system_name":"hits","delta":2},
		{"http_method":"GET","pattern":"/a/b","metric_system_name":"x y","delta":1}]}}`, g.backend.URL), "")
	t.Cleanup(g.runtime.Close)
	g.env = threescaletest.Reaching(t, g.product)
	g.compile(Policy, conf)
	g.compile(apicast.Policy, "{}")
	for _, m := range more {
		g.compile(m, `{"caching_type":"allow"}`)
	}
	return g
}

func (g *gateway) compile(spec plugin.Spec, conf string) {
	g.t.Helper()
	ph, err := spec.Compile([]byte(conf), g.env)
	if err != nil {
		g.t.Fatal(err)
	}
	g.phases = append(g.phases, ph)
}

// get returns the status of the answer and its body, "200 " if the request goes
// upstream.
func (g *gateway) get(target string) string {
	x := plugintest.NewCtx(target)
	reply := g.run(x)
	if reply == nil {
		return "200 "
	}
	return fmt.Sprint(reply.Status, " ", string(reply.Body))
}

func (g *gateway) run(x *plugin.Ctx) (reply *plugin.Reply) {
	g.product.Begin(x)
	defer threescale.End(x)
	for _, phase := range [...]func(*plugin.Phases) func(*plugin.Ctx) *plugin.Reply{
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Rewrite },
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Access },
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Content },
	} {
		for i := range g.phases {
			if f := phase(&g.phases[i]); f != nil && reply == nil {
				reply = f(x)
			}
		}
	}
	for i := range g.phases {
		if f := g.phases[i].Log; f != nil {
			f(x)
		}
	}
	return reply
}

// reported sums up the transactions of reports: "key metric" to number.
func reported(calls []threescaletest.Call, into map[string]int) {
	for _, c := range calls {
		if c.Path != "/transactions.xml" {
			continue
		}
		for name, values := range c.Form {
			at, metric, ok := strings.Cut(name, "[usage][")
			if !ok {
				continue
			}
			n, _ := strconv.Atoi(values[0])
			into[c.Form.Get(at+"[user_key]")+" "+strings.TrimSuffix(metric, "]")] += n
		}
	}
}

func paths(calls []threescaletest.Call) (all string) {
	for _, c := range calls {
		all += " " + c.Path
	}
	return all
}

func TestAuthorizes(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, "{}")
	for range 3 {
		if got := g.get("/a/b?user_key=k"); got != "200 " {
			t.Fatal(got)
		}
	}
	calls := g.backend.Calls()
	if len(calls) != 1 || calls[0].Path != "/transactions/authorize.xml" {
		t.Fatalf("%s", paths(calls))
	}
	if q := calls[0].Query; q.Get("usage[hits]") != "2" || q.Get("usage[x y]") != "1" || q.Get("user_key") != "k" || q.Get("service_token") != "token" || q.Get("service_id") != "42" {
		t.Errorf("%v", q)
	}
	// Another use and another caller are other authorizations.
	g.get("/a?user_key=k")
	g.get("/a?user_key=l")
	if n := len(g.backend.Calls()); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// Field case 90.
func TestNoMatch(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, "{}")
	if got := g.get("/b?user_key=k"); got != "404 No Mapping Rule matched" {
		t.Error(got)
	}
	if got := g.get("/a"); got != "401 Authentication parameters missing" {
		t.Error(got)
	}
	if calls := g.backend.Calls(); len(calls) != 0 {
		t.Errorf("%s", paths(calls))
	}
}

func TestRefuses(t *testing.T) {
	for _, tc := range []struct {
		status int
		reason string
		want   string
		asked  int // how often for two requests
	}{
		{409, "limits_exceeded", "429 Limits exceeded", 1},
		{403, "user_key_invalid", "403 Authentication failed", 1},
		{403, "", "403 Authentication failed", 1},
		{500, "", "403 Authentication failed", 2},
		{302, "", "403 Authentication failed", 2},
		{0, "", "403 Authentication failed", 4}, // on a kept connection once more
	} {
		g := newGateway(t, threescale.Settings{}, "{}")
		header := map[string]string{"3scale-limit-reset": "60"}
		if tc.reason != "" {
			header["3scale-rejection-reason"] = tc.reason
		}
		g.backend.Says(tc.status, header)
		for range 2 {
			if got := g.get("/a?user_key=k"); got != tc.want {
				t.Errorf("%d %s: %s", tc.status, tc.reason, got)
			}
		}
		if calls := g.backend.Calls(); len(calls) > tc.asked || len(calls) < (tc.asked+1)/2 {
			t.Errorf("%d %s: asked %d times", tc.status, tc.reason, len(calls))
		}
	}
}

func TestVerdictsEnd(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, `{"auths_ttl":0.05}`)
	g.get("/a?user_key=k")
	g.backend.Says(409, nil)
	for i := 0; g.get("/a?user_key=k") == "200 "; i++ {
		if i > 1000 {
			t.Fatal("it never does")
		}
		time.Sleep(5 * time.Millisecond)
	}
	g.backend.Says(200, nil) // so that the end need not wait
}

func TestReports(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":0.2}`)
	for range 10 {
		for _, k := range []string{"one", "two%26", "three"} {
			g.get("/a/b?user_key=" + k)
		}
	}
	got := map[string]int{}
	for i := 0; len(got) < 6 && i < 1000; i++ {
		calls := g.backend.Calls()
		reported(calls, got)
		for _, c := range calls {
			if c.Path == "/transactions.xml" && (c.Method != "POST" || c.Query.Get("service_token") != "token" || c.Query.Get("service_id") != "42" ||
				c.Header.Get("Content-Type") != "application/x-www-form-urlencoded") {
				t.Errorf("%s %v %v", c.Method, c.Query, c.Header)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	for k, n := range map[string]int{"one hits": 20, "two%26 hits": 20, "three hits": 20, "one x y": 10, "two%26 x y": 10, "three x y": 10} {
		if got[k] != n {
			t.Errorf("%s: %d, want %d", k, got[k], n)
		}
	}
}

// Field case 195: nothing is lost, however many callers there are, and although the
// backend does not take reports for a while.
func TestLosesNothing(t *testing.T) {
	const callers, requests = 3000, 5
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":0.1}`)
	var mu sync.Mutex
	got := map[string]int{}
	refused := 0
	g.backend.Answers(func(c threescaletest.Call) (int, map[string]string) {
		if c.Path != "/transactions.xml" {
			return 200, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if refused < 5 {
			refused++
			return 500, nil
		}
		reported([]threescaletest.Call{c}, got)
		return 202, nil
	})
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			for i := range callers {
				g.get("/a?user_key=" + strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	g.runtime.Close() // what is left
	for i := range callers {
		if n := got[strconv.Itoa(i)+" hits"]; n != 2*requests {
			t.Fatalf("caller %d: %d, want %d", i, n, 2*requests)
		}
	}
	if refused != 5 {
		t.Errorf("%d reports were refused", refused)
	}
}

// A batch that has no room for more callers has the rest reported at once.
func TestRoomEnds(t *testing.T) {
	const callers = 200
	g := newGateway(t, threescale.Settings{BatchRoom: 2000}, `{"batch_report_seconds":100}`)
	for i := range callers {
		for range 2 {
			g.get("/a?user_key=" + strconv.Itoa(i))
		}
	}
	g.runtime.Close()
	got := map[string]int{}
	reports := 0
	for _, c := range g.backend.Calls() {
		if c.Path == "/transactions.xml" {
			reports++
		}
		reported([]threescaletest.Call{c}, got)
	}
	for i := range callers {
		if n := got[strconv.Itoa(i)+" hits"]; n != 4 {
			t.Fatalf("caller %d: %d", i, n)
		}
	}
	if reports < callers {
		t.Errorf("%d reports: the batch had no bound", reports)
	}
}

// A batch outlives the change of its product, and with the product the rest of it
// is reported.
func TestReload(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":100}`)
	g.get("/a?user_key=k")
	next := g.env
	next.Keep = g.env.Keep.Fork()
	ph, err := Policy.Compile([]byte(`{"batch_report_seconds":100}`), next)
	if err != nil {
		t.Fatal(err)
	}
	old := g.phases[0]
	g.phases[0] = ph
	g.env.Keep.Release() // of the former configuration
	if old.Close != nil {
		old.Close()
	}
	g.get("/a?user_key=k")
	calls := g.backend.Calls()
	if len(calls) != 1 {
		t.Errorf("%s: a verdict was forgotten, or a report sent too early", paths(calls))
	}
	next.Keep.Release()
	got := map[string]int{}
	for i := 0; got["k hits"] == 0 && i < 1000; i++ {
		reported(g.backend.Calls(), got)
		time.Sleep(5 * time.Millisecond)
	}
	if got["k hits"] != 4 {
		t.Errorf("%v", got)
	}
}

// What the caching policy allows while the backend is down is reported later.
func TestAllowsWhileDown(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":100}`, caching.Policy)
	g.backend.Says(500, nil)
	for range 3 {
		if got := g.get("/a?user_key=k"); got != "200 " {
			t.Fatal(got)
		}
	}
	g.backend.Says(409, nil)
	if got := g.get("/a?user_key=k"); got != "403 Authentication failed" {
		t.Error(got)
	}
	g.backend.Calls()
	g.backend.Says(200, nil)
	g.runtime.Close()
	got := map[string]int{}
	if reported(g.backend.Calls(), got); got["k hits"] != 6 {
		t.Errorf("%v", got)
	}
}

func TestShowsLimits(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, "{}", ratelimitheaders.Policy)
	g.backend.Says(200, map[string]string{"3scale-limit-max-value": "10", "3scale-limit-remaining": "9", "3scale-limit-reset": "60"})
	// The policy may stand anywhere before apicast's content.
	g.phases[1], g.phases[2] = g.phases[2], g.phases[1]
	for _, want := range []string{"10 9 60", "10 8 60", "10 7 60"} {
		x := plugintest.NewCtx("/a?user_key=k")
		g.run(x)
		var got []string
		for _, h := range x.ReplyHeader() {
			got = append(got, h[1])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
}

// Field case 206: the overshoot is bounded by what is used until the backend knows
// of it and is asked again.
func TestOvershoot(t *testing.T) {
	const limit = 20
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":0.1,"auths_ttl":0.1}`)
	var mu sync.Mutex
	used := 0
	g.backend.Answers(func(c threescaletest.Call) (int, map[string]string) {
		mu.Lock()
		defer mu.Unlock()
		if c.Path == "/transactions.xml" {
			got := map[string]int{}
			reported([]threescaletest.Call{c}, got)
			used += got["k hits"]
			return 202, nil
		}
		if used+2 > limit {
			return 409, map[string]string{"3scale-rejection-reason": "limits_exceeded"}
		}
		return 200, nil
	})
	passed := 0
	for i := 0; i < 2000; i++ {
		if g.get("/a?user_key=k") == "200 " {
			passed++
		} else if mu.Lock(); used >= limit {
			mu.Unlock()
			break
		} else {
			mu.Unlock()
		}
		time.Sleep(time.Millisecond)
	}
	if passed*2 < limit || passed == 2000 {
		t.Errorf("%d requests passed, the limit is %d", passed, limit/2)
	}
	g.runtime.Close()
	mu.Lock()
	defer mu.Unlock()
	if used != 2*passed {
		t.Errorf("%d reported of %d", used, 2*passed)
	}
}

func TestRememberedAllocatesNothing(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	g := newGateway(t, threescale.Settings{}, `{"auths_ttl":100,"batch_report_seconds":100}`)
	x := plugintest.NewCtx("/a/b?user_key=k", [2]string{"Accept", "*/*"})
	request := func() {
		x.Path, x.Client = "/a/b", "127.0.0.1"
		if reply := g.run(x); reply != nil {
			t.Fatal(reply.Status)
		}
		x.Reset()
	}
	request()
	if n := testing.AllocsPerRun(200, request); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// However many come at once, the backend is asked once.
func TestAsksOnce(t *testing.T) {
	g := newGateway(t, threescale.Settings{}, `{"batch_report_seconds":100}`)
	all := make(chan struct{})
	g.backend.Answers(func(threescaletest.Call) (int, map[string]string) {
		<-all
		return 200, nil
	})
	var wg, begun sync.WaitGroup
	for range 50 {
		begun.Add(1)
		wg.Go(func() {
			begun.Done()
			if got := g.get("/a?user_key=k"); got != "200 " {
				t.Error(got)
			}
		})
	}
	begun.Wait()
	time.Sleep(50 * time.Millisecond)
	close(all)
	wg.Wait()
	if n := len(g.backend.Calls()); n > 2 { // one may have come very late
		t.Errorf("asked %d times", n)
	}
	g.runtime.Close()
	got := map[string]int{}
	if reported(g.backend.Calls(), got); got["k hits"] != 100 {
		t.Errorf("%v", got)
	}
}
