package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
	"weir/internal/leaktest"
	"weir/internal/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fake is a Consul with blocking queries.
type fake struct {
	*discoverytest.Server
	token string

	mu       sync.Mutex
	index    uint64
	changed  chan struct{}
	services map[string][]string // host:port
	asked    map[string]int
	ignore   bool // index and wait

	held, most atomic.Int64 // queries that block, and how many there were at most
}

func newFake(t *testing.T) *fake {
	f := &fake{index: 10, changed: make(chan struct{}), services: map[string][]string{}, asked: map[string]int{}}
	f.Server = discoverytest.Serve(t, http.HandlerFunc(f.serve))
	return f
}

func (f *fake) set(service string, nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[service] = nodes
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/health/service/")
	if !ok || r.URL.Query().Get("passing") != "true" {
		http.NotFound(w, r)
		return
	}
	if f.token != r.Header.Get("X-Consul-Token") {
		http.Error(w, "ACL not found", http.StatusForbidden)
		return
	}
	f.mu.Lock()
	f.asked[name]++
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	if r.URL.Query().Get("index") == fmt.Sprint(f.index) && !f.ignore {
		changed := f.changed
		f.mu.Unlock()
		if n := f.held.Add(1); n > f.most.Load() {
			f.most.Store(n)
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-r.Context().Done():
		}
		f.held.Add(-1)
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	w.Header().Set("X-Consul-Index", fmt.Sprint(f.index))
	answer := []json.RawMessage{}
	for _, n := range f.services[name] {
		host, port, _ := strings.Cut(n, ":")
		answer = append(answer, json.RawMessage(fmt.Sprintf(
			`{"Node":{"Address":"10.9.9.9"},"Service":{"Address":%q,"Port":%s,"Meta":null,"Weights":{"Passing":10}},"Checks":[]}`, host, port)))
	}
	json.NewEncoder(w).Encode(answer)
}

func (f *fake) timesAsked(service string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[service]
}

func config(more string, servers ...string) []byte {
	list, _ := json.Marshal(servers)
	return []byte(fmt.Sprintf(`{"servers":%s,"fetch_interval":1%s}`, list, more))
}

func start(t *testing.T, raw []byte) *discovery.Registry {
	t.Helper()
	r, err := New(raw, discoverytest.Env(t))
	return discoverytest.Start(t, r, err)
}

func TestFollow(t *testing.T) {
	f := newFake(t)
	f.set("a", "127.0.0.1:1", "localhost:2")
	r := start(t, config("", f.URL))
	a := discoverytest.Use(t, r, "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1", "localhost:2*1")
	before := a.Known(time.Now())
	f.set("b", "127.0.0.1:7")
	time.Sleep(3 * leastPause)
	if a.Known(time.Now()) != before {
		t.Error("another service changed the nodes")
	}
	f.set("a", "127.0.0.1:3")
	discoverytest.Await(t, a, "127.0.0.1:3*1")
	f.set("a")
	discoverytest.Await(t, a)
	if f.timesAsked("b") != 0 {
		t.Error("a service that is not in use was asked for")
	}
}

// TestShared: any number of upstreams share one query, and it ends after the last.
func TestShared(t *testing.T) {
	f := newFake(t)
	f.set("a", "127.0.0.1:1")
	r := start(t, config("", f.URL))
	var all []interface{ Close() }
	for range 50 {
		s, err := r.Discovery(&model.Upstream{ServiceName: "a"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		discoverytest.Await(t, s, "127.0.0.1:1*1")
	}
	if n := f.timesAsked("a"); n > 3 {
		t.Errorf("asked %d times", n)
	}
	for _, s := range all {
		s.Close()
	}
	discoverytest.Until(t, func() bool { return len(r.Services()) == 0 }, func() string { return "still followed" })
}

func TestAnswers(t *testing.T) {
	b := &catalog{Agent: &Agent{env: discoverytest.Env(t).Filled()}, config: Config{Settings: Settings{Weight: 3}}}
	for _, tc := range []struct{ sort, answer, want string }{
		{"origin", `[]`, ""},
		{"origin", `null`, ""},
		{"origin", `[{"Node":{"Address":"1.1.1.1"},"Checks":[]},{"Node":{"Address":"1.1.1.1"},"Service":{"Address":"2.2.2.2","Port":5}}]`, "2.2.2.2:5*3"},
		{"origin", `[{"Node":{"Address":"1.1.1.1"},"Service":{"Address":"","Port":5}}]`, "1.1.1.1:5*3"},
		{"origin", `[{"Service":{"Address":"h"}}]`, "h:80*3"},
		{"origin", `[{"Service":{"Address":"b","Port":1}},{"Service":{"Address":"a","Port":2}},{"Service":{"Address":"b","Port":1}}]`, "b:1*3 a:2*3"},
		{"host_sort", `[{"Service":{"Address":"b","Port":1}},{"Service":{"Address":"a","Port":3}},{"Service":{"Address":"a","Port":2}}]`, "a:3*3 a:2*3 b:1*3"},
		{"port_sort", `[{"Service":{"Address":"b","Port":2}},{"Service":{"Address":"a","Port":3}},{"Service":{"Address":"a","Port":2}}]`, "b:2*3 a:2*3 a:3*3"},
		{"combine_sort", `[{"Service":{"Address":"b","Port":1}},{"Service":{"Address":"a","Port":3}},{"Service":{"Address":"a","Port":2}}]`, "a:2*3 a:3*3 b:1*3"},
		{"origin", `{}`, "error"}, {"origin", `[7]`, "error"}, {"origin", `[{"Service":{"Port":"x"}}]`, "error"},
	} {
		b.config.SortType = tc.sort
		nodes, err := b.nodes([]byte(tc.answer), "s")
		var got []string
		for _, n := range nodes {
			got = append(got, fmt.Sprintf("%s:%d*%d", n.Host, n.Port, n.Weight))
		}
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %s", tc.answer, got, tc.want)
		}
	}
}

func TestFaults(t *testing.T) {
	for fault := discoverytest.Refuse; fault < discoverytest.Faults; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("a", "127.0.0.1:1")
			f.Fail(fault)
			r := start(t, config(`,"timeout":{"connect":50,"read":50,"wait":1}`, f.URL))
			a := discoverytest.Use(t, r, "a", "")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if list, err := a.Nodes(ctx, time.Now()); err == nil || errors.Is(err, ctx.Err()) {
				t.Errorf("no failure: %v %v", list, err)
			}
			f.Fail(discoverytest.None)
			discoverytest.Await(t, a, "127.0.0.1:1*1")
			f.Fail(fault)
			f.set("a", "127.0.0.1:2")
			n := f.Requests.Load()
			discoverytest.Until(t, func() bool { return f.Requests.Load() > n+2 }, func() string { return "it gave up" })
			discoverytest.Await(t, a, "127.0.0.1:1*1")
			f.Fail(discoverytest.None)
			discoverytest.Await(t, a, "127.0.0.1:2*1")
		})
	}
}

func TestToken(t *testing.T) {
	f := newFake(t)
	f.token = "t-1"
	f.set("a", "127.0.0.1:1")
	a := discoverytest.Use(t, start(t, config(`,"token":"t-1"`, f.URL)), "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	b := discoverytest.Use(t, start(t, config(`,"token":"t-2"`, f.URL)), "a", "")
	if _, err := b.Nodes(t.Context(), time.Now()); err == nil || strings.Contains(err.Error(), "t-2") {
		t.Errorf("refused token: %v", err)
	}
}

func TestNotBlocking(t *testing.T) {
	f := newFake(t)
	f.set("a", "127.0.0.1:1")
	began := time.Now()
	a := discoverytest.Use(t, start(t, config(`,"keepalive":false`, f.URL)), "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	f.set("a", "127.0.0.1:2")
	discoverytest.Await(t, a, "127.0.0.1:2*1")
	f.checkRate(t, began)
}

// checkRate makes sure that nothing was asked more often than once a second.
func (f *fake) checkRate(t *testing.T, since time.Time) {
	t.Helper()
	if n, most := f.timesAsked("a"), 3+int(time.Since(since)/(900*time.Millisecond)); n > most {
		t.Errorf("asked %d times, not %d", n, most)
	}
}

// TestServerThatDoesNotBlock must not be asked without a pause.
func TestServerThatDoesNotBlock(t *testing.T) {
	f := newFake(t)
	f.ignore = true
	f.set("a", "127.0.0.1:1")
	began := time.Now()
	a := discoverytest.Use(t, start(t, config("", f.URL)), "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	time.Sleep(500 * time.Millisecond)
	f.checkRate(t, began)
}

func TestServers(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.set("x", "127.0.0.1:1")
	b.set("y", "127.0.0.1:2")
	a.set("both", "127.0.0.1:3", "127.0.0.1:4")
	b.set("both", "127.0.0.1:4", "127.0.0.1:6")
	r := start(t, config(`,"timeout":{"connect":100,"read":100,"wait":1}`, a.URL, b.URL))
	x, y, both := discoverytest.Use(t, r, "x", ""), discoverytest.Use(t, r, "y", ""), discoverytest.Use(t, r, "both", "")
	discoverytest.Await(t, x, "127.0.0.1:1*1")
	discoverytest.Await(t, y, "127.0.0.1:2*1")
	discoverytest.Await(t, both, "127.0.0.1:3*1", "127.0.0.1:4*1", "127.0.0.1:6*1")
	a.Fail(discoverytest.Broken)
	b.set("both", "127.0.0.1:5")
	discoverytest.Await(t, both, "127.0.0.1:5*1")
	discoverytest.Await(t, x, "127.0.0.1:1*1")
	b.set("both")
	discoverytest.Await(t, both, "127.0.0.1:3*1", "127.0.0.1:4*1")
	a.set("both")
	a.Fail(discoverytest.None)
	discoverytest.Await(t, both)
}

func TestDefaultAndSkip(t *testing.T) {
	f := newFake(t)
	f.set("skipped", "127.0.0.1:1")
	f.set("consul", "127.0.0.1:1")
	r := start(t, config(`,"skip_services":["skipped"],"weight":5,"default_service":{"host":"127.0.0.1","port":20999}`, f.URL))
	for _, name := range []string{"skipped", "consul", "missing"} {
		discoverytest.Await(t, discoverytest.Use(t, r, name, ""), "127.0.0.1:20999*5")
	}
	f.set("missing", "127.0.0.1:2")
	discoverytest.Await(t, discoverytest.Use(t, r, "missing", ""), "127.0.0.1:2*5")
	down := newFake(t)
	down.Fail(discoverytest.Broken)
	r = start(t, config(`,"default_service":{"host":"h","port":1}`, down.URL))
	discoverytest.Await(t, discoverytest.Use(t, r, "a", ""), "h:1*1")
	r = start(t, config(`,"skip_services":["skipped"]`, f.URL))
	discoverytest.Await(t, discoverytest.Use(t, r, "skipped", ""))
}

func TestDump(t *testing.T) {
	f := newFake(t)
	f.set("a", "127.0.0.1:1")
	path := filepath.Join(t.TempDir(), "consul.dump")
	dump := fmt.Sprintf(`,"timeout":{"connect":100,"read":100,"wait":1},"dump":{"path":%q,"expire":%%d,"load_on_init":%%t}`, path)
	r, err := New(config(fmt.Sprintf(dump, 0, true), f.URL), discoverytest.Env(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	a := discoverytest.Use(t, r, "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	f.set("a", "127.0.0.1:2")
	discoverytest.Await(t, a, "127.0.0.1:2*1")
	r.Close()
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(b), `{"services":{"a":[{"host":"127.0.0.1","port":2,"weight":1}]},"last_update":`) {
		t.Fatalf("%s %v", b, err)
	}
	f.Fail(discoverytest.Broken)
	restored := discoverytest.Use(t, start(t, config(fmt.Sprintf(dump, 0, true), f.URL)), "a", "")
	discoverytest.Await(t, restored, "127.0.0.1:2*1")
	n := f.Requests.Load()
	discoverytest.Until(t, func() bool { return f.Requests.Load() > n+2 }, func() string { return "it gave up" })
	discoverytest.Await(t, restored, "127.0.0.1:2*1")
	refused := discoverytest.Use(t, start(t, config(fmt.Sprintf(dump, 0, false), f.URL)), "a", "")
	if _, err := refused.Nodes(t.Context(), time.Now()); err == nil {
		t.Error("the dump was read")
	}
	f.Fail(discoverytest.None)
	discoverytest.Await(t, restored, "127.0.0.1:2*1")
	for _, old := range []string{`{"services":{"b":[{"host":"127.0.0.1","port":9,"weight":1}]},"last_update":1000}`, `{`, ``, `{"services":{}}`} {
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		s := discoverytest.Use(t, start(t, config(fmt.Sprintf(dump, 1, true), f.URL)), "b", "")
		discoverytest.Await(t, s)
	}
}

func TestConfig(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                                     `property "servers" is required`,
		`{"servers":[]}`:                         `property "servers" validation failed: expect array to have at least 1 items`,
		`{"servers":["https://a:1"]}`:            "only support consul http schema address, eg: http://address:port",
		`{"servers":["http://a:1/"]}`:            "invalid consul server address, the valid format: http://address:port",
		`{"servers":["http://"]}`:                "invalid consul server address, the valid format: http://address:port",
		`{"servers":["http://a"],"dump":{}}`:     `property "dump" validation failed: property "path" is required`,
		`{"servers":["http://a"],"weight":0}`:    `property "weight" validation failed: expected 0 to be at least 1`,
		`{"servers":["http://a"],"sort_type":0}`: `property "sort_type" validation failed: wrong type: expected string, got number`,
	} {
		if _, err := New([]byte(raw), discovery.Env{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

// TestDifferential compares services with the registry after random changes and
// failures.
func TestDifferential(t *testing.T) {
	f := newFake(t)
	r := start(t, config(`,"timeout":{"connect":50,"read":50,"wait":1}`, f.URL))
	rnd := rand.New(rand.NewPCG(1, 2))
	const services = 20
	for step := range 300 {
		nodes := []string{}
		for port := range rnd.IntN(5) {
			nodes = append(nodes, fmt.Sprintf("127.0.0.%d:%d", 1+rnd.IntN(3), 1+port))
		}
		f.set(fmt.Sprintf("s%d", rnd.IntN(services)), nodes...)
		s, err := r.Discovery(&model.Upstream{ServiceName: fmt.Sprintf("s%d", rnd.IntN(services))})
		if err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(3) > 0 {
			s.Close()
		} else {
			defer s.Close()
		}
		switch rnd.IntN(20) {
		case 0:
			f.Fail(discoverytest.Fault(rnd.IntN(int(discoverytest.Faults))))
		case 1, 2:
			f.Fail(discoverytest.None)
		}
		if step%20 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	f.Fail(discoverytest.None)
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		want := []string{}
		for _, n := range f.services[name] {
			want = append(want, n+"*1")
		}
		discoverytest.Await(t, discoverytest.Use(t, r, name, ""), slices.Compact(want)...)
	}
}

// TestManyServices: Consul is not asked to hold more queries than it takes from
// one address; the other services are asked for now and then.
func TestManyServices(t *testing.T) {
	f := newFake(t)
	const services = maxBlocking + 40
	for i := range services {
		f.services[fmt.Sprint(i)] = []string{"127.0.0.1:1"}
	}
	r := start(t, config("", f.URL))
	for i := range services {
		discoverytest.Await(t, discoverytest.Use(t, r, fmt.Sprint(i), ""), "127.0.0.1:1*1")
	}
	discoverytest.Until(t, func() bool { return f.held.Load() == maxBlocking }, func() string { return fmt.Sprintf("%d queries are held", f.held.Load()) })
	for i := range services {
		f.set(fmt.Sprint(i), "127.0.0.1:2")
	}
	for i := range services {
		discoverytest.Await(t, discoverytest.Use(t, r, fmt.Sprint(i), ""), "127.0.0.1:2*1")
	}
	if most := f.most.Load(); most > maxBlocking {
		t.Errorf("%d queries were held", most)
	}
}

// FuzzAnswer: every address once, each with a port.
func FuzzAnswer(f *testing.F) {
	f.Add(`[{"Node":{"Address":"1.1.1.1"},"Service":{"Port":80}},{"Service":null}]`, "port_sort")
	f.Add(`[{"Node":{"Address":"::1"},"Service":{"Address":"a","Port":-1}},{"Service":{}}]`, "combine_sort")
	b := &catalog{Agent: &Agent{env: discovery.Env{}.Filled()}, config: Config{}}
	f.Fuzz(func(t *testing.T, answer, sort string) {
		b.config.SortType = sort
		nodes, err := b.nodes(json.RawMessage(answer), "a")
		seen := map[string]bool{}
		for _, n := range nodes {
			at := fmt.Sprintf("%q:%d", n.Host, n.Port)
			if err != nil || seen[at] || n.Port == 0 {
				t.Errorf("%s: %v, %v", answer, nodes, err)
			}
			seen[at] = true
		}
	})
}
