package consulkv

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
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

// fake is Consul's key-value store with blocking queries.
type fake struct {
	*discoverytest.Server

	mu      sync.Mutex
	index   uint64
	changed chan struct{}
	keys    map[string]string
}

func newFake(t *testing.T) *fake {
	f := &fake{index: 10, changed: make(chan struct{}), keys: map[string]string{}}
	f.Server = discoverytest.Serve(t, http.HandlerFunc(f.serve))
	return f
}

// put stores a value; an empty one removes the key.
func (f *fake) put(key, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[key] = value
	if value == "" {
		delete(f.keys, key)
	}
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	prefix, ok := strings.CutPrefix(r.URL.Path, "/v1/kv/")
	if !ok || r.URL.Query().Get("recurse") != "true" {
		http.NotFound(w, r)
		return
	}
	f.mu.Lock()
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	if r.URL.Query().Get("index") == fmt.Sprint(f.index) {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(wait):
		case <-r.Context().Done():
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	w.Header().Set("X-Consul-Index", fmt.Sprint(f.index))
	var pairs []pair
	for key, value := range f.keys {
		if strings.HasPrefix(key, prefix) {
			pairs = append(pairs, pair{key, []byte(value)})
		}
	}
	if pairs == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	json.NewEncoder(w).Encode(pairs)
}

func (f *fake) service(name string) string { return f.URL + "/v1/kv/upstreams/" + name + "/" }

func start(t *testing.T, more string, servers ...string) *discovery.Registry {
	t.Helper()
	list, _ := json.Marshal(servers)
	r, err := New([]byte(fmt.Sprintf(`{"servers":%s,"fetch_interval":1,"timeout":{"connect":100,"read":100,"wait":1}%s}`, list, more)), discoverytest.Env(t))
	return discoverytest.Start(t, r, err)
}

func TestFollow(t *testing.T) {
	f := newFake(t)
	f.put("upstreams/web/127.0.0.1:1", `{"weight": 10, "max_fails": 2, "fail_timeout": 1}`)
	f.put("upstreams/web/my-host.x:2", `{}`)
	f.put("upstreams/web/deeper/127.0.0.1:3", `{"weight": 1}`)
	f.put("upstreams/website/127.0.0.1:4", `{"weight": 1}`)
	f.put("upstreams/web/127.0.0.1:5", `{"check_status": false}`)
	f.put("upstreams/web/127.0.0.1:6", `{"check_status": "false"}`)
	for i, broken := range []string{`x`, `{"weight":"a"}`, `{"weight":1.5}`, `[]`, `7`} {
		f.put(fmt.Sprintf("upstreams/web/127.0.0.1:7%d", i), broken)
	}
	f.put("upstreams/web/note", `{"weight":1}`)
	f.put("upstreams/web/127.0.0.1:port", `{"weight":1}`)
	f.put("upstreams/web/127.0.0.1:70000", `{"weight":1}`)
	r := start(t, "", f.URL)
	s := discoverytest.Use(t, r, f.service("web"), "")
	discoverytest.Await(t, s, "127.0.0.1:1*10", "my-host.x:2*1")
	f.put("upstreams/web/127.0.0.1:9", `{"weight":"3"}`)
	discoverytest.Await(t, s, "127.0.0.1:1*10", "my-host.x:2*1", "127.0.0.1:9*3")
	deeper := discoverytest.Use(t, r, f.service("web/deeper"), "")
	discoverytest.Await(t, deeper, "127.0.0.1:3*1")
	f.put("upstreams/web/deeper/127.0.0.1:3", "")
	discoverytest.Await(t, deeper)
}

func TestServices(t *testing.T) {
	f := newFake(t)
	f.put("upstreams/web/127.0.0.1:1", `{}`)
	f.put("upstreams/skipped/127.0.0.1:1", `{}`)
	f.put("other/web/127.0.0.1:1", `{}`)
	r := start(t, `,"skip_keys":["upstreams/skipped/"],"default_service":{"host":"d","port":1}`, f.URL)
	for service, want := range map[string]string{
		f.service("web"):                        "127.0.0.1:1*1",
		f.service("skipped"):                    "d:1*1",
		f.service("missing"):                    "d:1*1",
		f.URL + "/v1/kv/other/web/":             "d:1*1",
		f.URL + "/v1/kv/upstreams/web":          "d:1*1",
		"http://127.0.0.1:1/v1/kv/upstreams/a/": "d:1*1",
		"web":                                   "d:1*1",
	} {
		discoverytest.Await(t, discoverytest.Use(t, r, service, ""), want)
	}
}

func TestFaults(t *testing.T) {
	for fault := discoverytest.Refuse; fault < discoverytest.Faults; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.put("upstreams/web/127.0.0.1:1", `{}`)
			s := discoverytest.Use(t, start(t, "", f.URL), f.service("web"), "")
			discoverytest.Await(t, s, "127.0.0.1:1*1")
			f.Fail(fault)
			f.put("upstreams/web/127.0.0.1:1", "")
			n := f.Requests.Load()
			discoverytest.Until(t, func() bool { return f.Requests.Load() > n+2 }, func() string { return "it gave up" })
			discoverytest.Await(t, s, "127.0.0.1:1*1")
			f.Fail(discoverytest.None)
			discoverytest.Await(t, s)
		})
	}
}

// TestDumpOfOthers: nodes come from a dump even if its server is not configured
// any more.
func TestDumpOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump")
	service := "http://127.0.0.1:8500/v1/kv/upstreams/webpages/"
	content := fmt.Sprintf(`{"services":{%q:[{"host":"127.0.0.1","port":30511,"weight":1}],"none":{}},"last_update":%d,"expire":10}`, service, time.Now().Unix())
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, fmt.Sprintf(`,"dump":{"path":%q,"expire":5}`, path), "http://127.0.0.1:1")
	s := discoverytest.Use(t, r, service, "")
	discoverytest.Await(t, s, "127.0.0.1:30511*1")
}

func TestDifferential(t *testing.T) {
	f := newFake(t)
	r := start(t, "", f.URL)
	rnd := rand.New(rand.NewPCG(3, 4))
	const services = 10
	for step := range 300 {
		value := ""
		if rnd.IntN(3) > 0 {
			value = fmt.Sprintf(`{"weight":%d}`, rnd.IntN(4))
		}
		f.put(fmt.Sprintf("upstreams/s%d/127.0.0.1:%d", rnd.IntN(services), 1+rnd.IntN(5)), value)
		s, err := r.Discovery(&model.Upstream{ServiceName: f.service(fmt.Sprintf("s%d", rnd.IntN(services)))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
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
		var want []string
		for key, value := range f.keys {
			if node, ok := strings.CutPrefix(key, fmt.Sprintf("upstreams/s%d/", i)); ok {
				want = append(want, node+"*"+strings.Trim(value, `{"weight:}`))
			}
		}
		discoverytest.Await(t, discoverytest.Use(t, r, f.service(fmt.Sprintf("s%d", i)), ""), want...)
	}
}

func FuzzNodes(f *testing.F) {
	f.Add(`[{"Key":"d/1.1.1.1:1","Value":"e30="}]`)
	f.Add(`[{"Key":"d/","Value":null},{"Key":"d/a:1","Value":"eyJ3ZWlnaHQiOjF9"}]`)
	b := &store{log: discovery.Env{}.Filled().Log}
	f.Fuzz(func(t *testing.T, answer string) {
		nodes, err := b.nodes([]byte(answer), "d/")
		for _, n := range nodes {
			if err != nil || n.Host == "" || n.Port < 0 || n.Port > 65535 {
				t.Errorf("%s: %v %v", answer, nodes, err)
			}
		}
	})
}
