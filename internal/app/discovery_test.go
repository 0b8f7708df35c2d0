package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/discovery/discoverytest"
)

// A catalog is a Consul whose services the test changes.
type catalog struct {
	*discoverytest.Server

	mu      sync.Mutex
	index   int
	changed chan struct{}
	nodes   map[string][]string
}

func newCatalog(t *testing.T) *catalog {
	c := &catalog{index: 1, changed: make(chan struct{}), nodes: map[string][]string{}}
	c.Server = discoverytest.Serve(t, http.HandlerFunc(c.serve))
	return c
}

func (c *catalog) set(service string, nodes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[service] = nodes
	c.index++
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *catalog) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if r.URL.Query().Get("index") == fmt.Sprint(c.index) {
		changed := c.changed
		c.mu.Unlock()
		wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
		select {
		case <-changed:
		case <-time.After(wait):
		case <-r.Context().Done():
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	w.Header().Set("X-Consul-Index", fmt.Sprint(c.index))
	var list []string
	for _, n := range c.nodes[strings.TrimPrefix(r.URL.Path, "/v1/health/service/")] {
		host, port, _ := strings.Cut(n, ":")
		list = append(list, fmt.Sprintf(`{"Service":{"Address":%q,"Port":%s}}`, host, port))
	}
	fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
}

func discovered(service, more string) string {
	return fmt.Sprintf(`{"type":"roundrobin","discovery_type":"consul","service_name":%q%s}`, service, more)
}

// awaitAnswer waits until path is answered with status and, unless it is empty,
// body.
func (s *site) awaitAnswer(path string, status int, body string) {
	s.t.Helper()
	var got int
	var text string
	discoverytest.Until(s.t, func() bool {
		got, text = s.ask(path, "")
		return got == status && (body == "" || text == body)
	}, func() string { return fmt.Sprintf("%s: %d %s, want %d %s", path, got, text, status, body) })
}

// TestDiscovery changes a registry under a gateway: requests reach the new nodes
// and nothing is compiled.
func TestDiscovery(t *testing.T) {
	c := newCatalog(t)
	s := newSite(t, fmt.Sprintf("discovery: {consul: {servers: [%q], token: t-secret, fetch_interval: 1, timeout: {connect: 100, read: 100, wait: 1}}}\n", c.URL))
	other := s.upstream("other")
	c.set("web", s.echo)
	s.put("upstreams/u", discovered("web", ""))
	s.put("routes/1", `{"uri":"/u","upstream_id":"u"}`)
	s.put("routes/2", `{"uri":"/r","upstream":`+discovered("web", "")+`}`)
	s.put("routes/3", `{"uri":"/none","upstream":`+discovered("none", "")+`}`)
	s.put("routes/4", `{"uri":"/nacos","upstream":{"type":"roundrobin","discovery_type":"nacos","service_name":"x"}}`)
	// The first request waits for the registry.
	for _, path := range []string{"/u", "/r"} {
		if status, body := s.ask(path, ""); status != 200 || body != "ok" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/none", "/nacos"} {
		if status := s.get(path, ""); status != 503 {
			t.Errorf("%s: %d", path, status)
		}
	}
	before := s.g.state.Work()
	for range 5 {
		c.set("web", other)
		s.awaitAnswer("/u", 200, "other")
		s.awaitAnswer("/r", 200, "other")
		c.set("web", s.echo)
		s.awaitAnswer("/u", 200, "ok")
		s.awaitAnswer("/r", 200, "ok")
	}
	c.set("web")
	s.awaitAnswer("/u", 503, "")
	c.set("none", other)
	s.awaitAnswer("/none", 200, "other")
	c.set("web", s.echo)
	s.awaitAnswer("/u", 200, "ok")
	for _, fault := range []discoverytest.Fault{discoverytest.Hang, discoverytest.Garbage} {
		c.Fail(fault)
		n := c.Requests.Load()
		discoverytest.Until(t, func() bool { return c.Requests.Load() > n }, func() string { return "it gave up" })
		if status := s.get("/u", ""); status != 200 {
			t.Errorf("fault %d: %d", fault, status)
		}
	}
	c.Fail(discoverytest.None)
	if after := s.g.state.Work(); !maps.Equal(before.Compiled, after.Compiled) || before.Deltas != after.Deltas {
		t.Errorf("compiled %v, then %v", before, after)
	}
	c.set("web", other)
	s.awaitAnswer("/u", 200, "other")
	s.checkDump(other)
	for _, path := range []string{"routes/1", "routes/2", "upstreams/u"} {
		s.del(path)
	}
}

func (s *site) checkDump(node string) {
	s.t.Helper()
	status, body := get(s.t, "http://"+s.g.Control().String()+"/v1/discovery/consul/dump")
	var dump struct {
		Config struct {
			Weight int    `json:"weight"`
			Token  string `json:"token"`
		} `json:"config"`
		Services map[string]json.RawMessage `json:"services"`
	}
	if err := json.Unmarshal([]byte(body), &dump); err != nil {
		s.t.Fatalf("%d %s", status, body)
	}
	host, port, _ := strings.Cut(node, ":")
	want := fmt.Sprintf(`[{"host":%q,"port":%s,"weight":1}]`, host, port)
	if string(dump.Services["web"]) != want || dump.Config.Weight != 1 || strings.Contains(body, "t-secret") {
		s.t.Errorf("%s", body)
	}
	if status, body = get(s.t, "http://"+s.g.Control().String()+"/v1/discovery/consul/show_dump_file"); status != 503 || body != "dump params is nil\n" {
		s.t.Errorf("%d %s", status, body)
	}
}

// TestDiscoveryHealth: checks go on with what they know when nodes come and go.
func TestDiscoveryHealth(t *testing.T) {
	c := newCatalog(t)
	s := newSite(t, fmt.Sprintf("discovery: {consul: {servers: [%q], fetch_interval: 1}}\n", c.URL))
	const dead = "127.0.0.1:1"
	c.set("web", s.echo, dead)
	s.put("upstreams/u", discovered("web", `,"checks":{"active":{"type":"tcp","healthy":{"interval":1,"successes":1},"unhealthy":{"interval":1,"tcp_failures":1}}}`))
	s.put("routes/1", `{"uri":"/u","upstream_id":"u"}`)
	s.awaitAnswer("/u", 200, "ok")
	state := func(node string) string {
		_, body := get(t, "http://"+s.g.Control().String()+"/v1/healthcheck/upstreams/u")
		var checked struct {
			Nodes []struct {
				IP     string `json:"ip"`
				Port   int    `json:"port"`
				Status string `json:"status"`
			} `json:"nodes"`
		}
		_ = json.Unmarshal([]byte(body), &checked) // no nodes are an object
		for _, n := range checked.Nodes {
			if fmt.Sprintf("%s:%d", n.IP, n.Port) == node {
				return n.Status
			}
		}
		return ""
	}
	discoverytest.Until(t, func() bool { return state(dead) == "unhealthy" }, func() string { return "the dead node is " + state(dead) })
	other := s.upstream("other")
	c.set("web", s.echo, dead, other)
	discoverytest.Until(t, func() bool {
		s.get("/u", "")
		return state(other) == "healthy"
	}, func() string { return "the new node is " + state(other) })
	if got := state(dead); got != "unhealthy" {
		t.Errorf("the dead node is %s", got)
	}
	for range 20 {
		if status := s.get("/u", ""); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	c.set("web", s.echo)
	discoverytest.Until(t, func() bool { return state(dead) == "" && state(other) == "" }, func() string { return "old nodes are still checked" })
}

// TestDiscoveryReady: as long as Kubernetes has not answered, the gateway is not
// ready.
func TestDiscoveryReady(t *testing.T) {
	api := discoverytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "true" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"kind":"EndpointsList","metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	host, port, _ := strings.Cut(api.Listener.Addr().String(), ":")
	s := newSite(t, fmt.Sprintf("discovery: {kubernetes: {service: {schema: http, host: %q, port: %q}, client: {token: t}}}\n", host, port))
	ready := func() (int, string) { return get(t, "http://"+s.g.Status().String()+"/status/ready") }
	if status, body := ready(); status != 200 {
		t.Errorf("nothing to wait for: %d %s", status, body)
	}
	api.Fail(discoverytest.Broken)
	s.put("routes/1", `{"uri":"/k","upstream":{"type":"roundrobin","discovery_type":"kubernetes","service_name":"a/b:c"}}`)
	if status := s.get("/k", ""); status != 503 {
		t.Errorf("status %d", status)
	}
	if status, body := ready(); status != 503 || !strings.Contains(body, "kubernetes discovery not ready") {
		t.Errorf("%d %s", status, body)
	}
	api.Fail(discoverytest.None)
	discoverytest.Until(t, func() bool { status, _ := ready(); return status == 200 }, func() string { return "not ready" })
}
