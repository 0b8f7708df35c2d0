package nacos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
	"weir/internal/leaktest"
	"weir/internal/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fake is a Nacos.
type fake struct {
	*discoverytest.Server
	user, password string // empty: none is asked for

	mu       sync.Mutex
	tokens   int // the last one given is valid
	ttl      int
	services map[service]string // the list "hosts"
	last     http.Request
}

func newFake(t *testing.T) *fake {
	f := &fake{services: map[service]string{}, ttl: 18000}
	f.Server = discoverytest.Serve(t, http.HandlerFunc(f.serve))
	return f
}

func (f *fake) set(s service, hosts string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[s] = hosts
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "POST /nacos/v1/auth/login":
		if r.FormValue("username") != f.user || r.FormValue("password") != f.password {
			http.Error(w, "unknown user!", http.StatusForbidden)
			return
		}
		f.tokens++
		fmt.Fprintf(w, `{"accessToken":"t%d","tokenTtl":%d}`, f.tokens, f.ttl)
	case "GET /nacos/v1/ns/instance/list":
		q := r.URL.Query()
		if f.user != "" && q.Get("accessToken") != fmt.Sprintf("t%d", f.tokens) {
			http.Error(w, "token invalid!", http.StatusForbidden)
			return
		}
		f.last = *r
		hosts := f.services[service{q.Get("namespaceId"), q.Get("groupName"), q.Get("serviceName"), false}]
		if hosts == "" {
			hosts = "[]"
		}
		fmt.Fprintf(w, `{"name":"x","hosts":%s}`, hosts)
	default:
		http.NotFound(w, r)
	}
}

// start runs a registry that asks every few milliseconds.
func start(t *testing.T, more string, hosts ...string) *discovery.Registry {
	t.Helper()
	list, _ := json.Marshal(hosts)
	raw := fmt.Sprintf(`{"host":%s,"timeout":{"connect":30,"send":30,"read":40}%s}`, list, more)
	c, _, err := discovery.Parse[Config]([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	b := newNaming(c, discoverytest.Env(t))
	b.interval = 10 * time.Millisecond
	return discoverytest.Start(t, discovery.New(discovery.Config{Kind: kind, Backend: b, Env: discoverytest.Env(t), Show: show}), nil)
}

func plain(name string) service { return service{"public", "DEFAULT_GROUP", name, false} }

func TestServices(t *testing.T) {
	f := newFake(t)
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1.0,"healthy":true,"enabled":true}]`)
	f.set(service{"ns", "DEFAULT_GROUP", "a", false}, `[{"ip":"127.0.0.1","port":2}]`)
	f.set(service{"public", "g", "a", false}, `[{"ip":"127.0.0.1","port":3,"weight":2}]`)
	f.set(service{"ns", "g", "a b&c", false}, `[{"ip":"127.0.0.1","port":4,"weight":2}]`)
	r := start(t, "", f.URL)
	for _, tc := range []struct{ service, args, want string }{
		{"a", "", "127.0.0.1:1*1"},
		{"a", `{}`, "127.0.0.1:1*1"},
		{"a", `{"namespace_id":"public","group_name":"DEFAULT_GROUP"}`, "127.0.0.1:1*1"},
		{"a", `{"namespace_id":"ns"}`, "127.0.0.1:2*100"},
		{"a", `{"group_name":"g"}`, "127.0.0.1:3*2"},
		{"a b&c", `{"group_name":"g","namespace_id":"ns"}`, "127.0.0.1:4*2"},
	} {
		discoverytest.Await(t, discoverytest.Use(t, r, tc.service, tc.args), tc.want)
	}
	discoverytest.Await(t, discoverytest.Use(t, r, "a", `{"namespace_id":"none"}`))
	if n := len(r.Services()); n != 4 {
		t.Errorf("%d services", n)
	}
	if _, err := discoverytest.Use(t, r, "a", `{"namespace_id":7}`).Nodes(t.Context(), time.Now()); err == nil {
		t.Error("wrong arguments")
	}
}

func TestNodes(t *testing.T) {
	b := newNaming(Config{Weight: 100, Host: []string{"http://h"}}, discovery.Env{})
	for answer, want := range map[string]string{
		`[{"ip":"a","port":1,"weight":0.5},{"ip":"b","port":1,"weight":1}]`:                             "a:1*50 b:1*100",
		`[{"ip":"a","port":1,"weight":0.001},{"ip":"b","port":1}]`:                                      "a:1*1 b:1*100",
		`[{"ip":"a","port":1,"weight":0},{"ip":"b","port":1,"weight":1e300}]`:                           "a:1*0 b:1*1000000",
		`[{"ip":"a","port":1,"weight":-3}]`:                                                             "a:1*-1",
		`[{"ip":"a","port":1,"healthy":false},{"ip":"b","port":1,"enabled":false},{"ip":"c","port":2}]`: "c:2*100",
	} {
		var list []instance
		if err := json.Unmarshal([]byte(answer), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range b.nodes(list, false) {
			got = append(got, fmt.Sprintf("%s:%d*%d", n.Host, n.Port, n.Weight))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", answer, got, want)
		}
	}
}

// TestGRPC: an upstream with gRPC has other ports of the same service.
func TestGRPC(t *testing.T) {
	f := newFake(t)
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1,"metadata":{"gRPC_port":"9"}},{"ip":"127.0.0.1","port":2,"weight":1,"metadata":{"gRPC_port":10}},`+
		`{"ip":"127.0.0.1","port":3,"weight":1,"metadata":{}},{"ip":"127.0.0.1","port":4,"weight":1,"metadata":{"gRPC_port":"x"}}]`)
	r := start(t, "", f.URL)
	discoverytest.Await(t, discoverytest.Use(t, r, "a", ""), "127.0.0.1:1*1", "127.0.0.1:2*1", "127.0.0.1:3*1", "127.0.0.1:4*1")
	s, err := r.Discovery(&model.Upstream{ServiceName: "a", Scheme: "grpc"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	discoverytest.Await(t, s, "127.0.0.1:9*1", "127.0.0.1:10*1", "127.0.0.1:3*1")
}

func TestLogin(t *testing.T) {
	f := newFake(t)
	f.user, f.password = "nacos", "n!@#$%^&*()[]:"
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1}]`)
	address := strings.TrimPrefix(f.URL, "http://")
	r := start(t, "", "http://nacos:"+f.password+"@"+address)
	a := discoverytest.Use(t, r, "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	n := f.Requests.Load()
	discoverytest.Until(t, func() bool { return f.Requests.Load() > n+5 }, func() string { return "it gave up" })
	f.mu.Lock()
	if f.tokens != 1 {
		t.Errorf("%d logins", f.tokens)
	}
	f.tokens = 100 // as after a restart of Nacos
	f.mu.Unlock()
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":2,"weight":1}]`)
	discoverytest.Await(t, a, "127.0.0.1:2*1")
	wrong := discoverytest.Use(t, start(t, "", "http://nacos:secret-wrong@"+address), "a", "")
	_, err := wrong.Nodes(t.Context(), time.Now())
	if err == nil || strings.Contains(err.Error(), "secret-wrong") || !strings.Contains(err.Error(), "nacos login of nacos") {
		t.Errorf("wrong password: %v", err)
	}
	// The password changes and comes back: the last nodes stay.
	f.mu.Lock()
	f.password, f.tokens = "other", 200
	f.mu.Unlock()
	n = f.Requests.Load()
	discoverytest.Until(t, func() bool { return f.Requests.Load() > n+5 }, func() string { return "it gave up" })
	discoverytest.Await(t, a, "127.0.0.1:2*1")
}

func TestShortToken(t *testing.T) {
	f := newFake(t)
	f.user, f.password, f.ttl = "u", "p", 0
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1}]`)
	a := discoverytest.Use(t, start(t, "", "http://u:p@"+strings.TrimPrefix(f.URL, "http://")), "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
}

func TestSigned(t *testing.T) {
	f := newFake(t)
	a := discoverytest.Use(t, start(t, `,"access_key":"AK","secret_key":"SK"`, f.URL), "a", "")
	discoverytest.Await(t, a)
	f.mu.Lock()
	q := f.last.URL.Query()
	f.mu.Unlock()
	if q.Get("ak") != "AK" || !strings.HasSuffix(q.Get("data"), "@@DEFAULT_GROUP@@a") || len(q.Get("signature")) != 28 {
		t.Errorf("query %v", q)
	}
}

func TestHosts(t *testing.T) {
	f, down := newFake(t), newFake(t)
	down.Fail(discoverytest.Broken)
	f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1}]`)
	down.set(plain("a"), `[{"ip":"127.0.0.1","port":2,"weight":1}]`)
	a := discoverytest.Use(t, start(t, "", down.URL, f.URL), "a", "")
	discoverytest.Await(t, a, "127.0.0.1:1*1")
	down.Fail(discoverytest.None)
	f.Fail(discoverytest.Hang)
	discoverytest.Await(t, a, "127.0.0.1:2*1")
}

func TestFaults(t *testing.T) {
	for fault := discoverytest.Refuse; fault < discoverytest.Faults; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set(plain("a"), `[{"ip":"127.0.0.1","port":1,"weight":1}]`)
			a := discoverytest.Use(t, start(t, "", f.URL), "a", "")
			discoverytest.Await(t, a, "127.0.0.1:1*1")
			f.Fail(fault)
			f.set(plain("a"), "")
			n := f.Requests.Load()
			discoverytest.Until(t, func() bool { return f.Requests.Load() > n+2 }, func() string { return "it gave up" })
			discoverytest.Await(t, a, "127.0.0.1:1*1")
			f.Fail(discoverytest.None)
			discoverytest.Await(t, a)
		})
	}
}

func TestConfig(t *testing.T) {
	for raw, valid := range map[string]bool{
		`{}`:                                 false,
		`{"host":[]}`:                        false,
		`{"host":["127.0.0.1:8848"]}`:        false,
		`{"host":["http://127.0.0.1:8848"]}`: true,
		`{"host":["https://u:p@h"],"prefix":"/nacos/v1/"}`:      true,
		`{"host":["http://h"],"prefix":"/nacos/v1/?x"}`:         false,
		`{"host":["http://h"],"fetch_interval":0}`:              false,
		`{"host":["http://h"],"timeout":{"connect":0}}`:         false,
		`{"host":["http://h"],"access_key":"","secret_key":""}`: true,
	} {
		r, err := New([]byte(raw), discovery.Env{})
		if (err == nil) != valid {
			t.Errorf("%s: %v", raw, err)
		}
		if err == nil {
			r.Close()
		}
	}
}

func TestDifferential(t *testing.T) {
	f := newFake(t)
	r := start(t, "", f.URL)
	rnd := rand.New(rand.NewPCG(5, 6))
	const services = 20
	want := map[string][]string{}
	for step := range 300 {
		name := fmt.Sprintf("s%d", rnd.IntN(services))
		hosts := []string{}
		want[name] = nil
		for port := range rnd.IntN(5) {
			w := rnd.IntN(5)
			hosts = append(hosts, fmt.Sprintf(`{"ip":"127.0.0.1","port":%d,"weight":%d}`, port+1, w))
			want[name] = append(want[name], fmt.Sprintf("127.0.0.1:%d*%d", port+1, w))
		}
		f.set(plain(name), "["+strings.Join(hosts, ",")+"]")
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
		discoverytest.Await(t, discoverytest.Use(t, r, name, ""), want[name]...)
	}
}

// FuzzAnswer: an instance that takes part has a weight above 0 exactly if Nacos
// gave it one, and never more than the most.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"hosts":[{"ip":"1.1.1.1","port":80,"weight":0.5},{"ip":"1.1.1.2","port":80}]}`, false)
	f.Add(`{"hosts":[{"ip":"1.1.1.1","port":80,"weight":1e300,"enabled":false,"metadata":{"gRPC_port":"50051"}}]}`, true)
	f.Add(`{"hosts":[{"ip":"1.1.1.1","weight":-1,"healthy":null,"metadata":{"gRPC_port":{}}}]}`, true)
	b := newNaming(Config{Host: []string{"http://h"}, Weight: 100}, discovery.Env{})
	defer b.Close()
	f.Fuzz(func(t *testing.T, text string, grpc bool) {
		var answer struct {
			Hosts []instance `json:"hosts"`
		}
		if json.Unmarshal([]byte(text), &answer) != nil {
			return
		}
		in := slices.DeleteFunc(slices.Clone(answer.Hosts), func(i instance) bool { return !i.in() })
		nodes := b.nodes(answer.Hosts, grpc)
		if len(nodes) != len(in) {
			t.Fatalf("%s: %d nodes of %d instances", text, len(nodes), len(in))
		}
		for i, n := range nodes {
			if n.Weight > maxWeight || in[i].Weight != nil && (*in[i].Weight > 0) != (n.Weight > 0) {
				t.Errorf("%s: weight %d", text, n.Weight)
			}
		}
	})
}
