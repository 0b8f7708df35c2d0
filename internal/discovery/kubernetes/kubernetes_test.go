package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// endpoints are the members of an Endpoints object with addresses at the ports
// http (80) and, without a name, 81.
func endpoints(addresses ...string) string {
	var list []string
	for _, a := range addresses {
		list = append(list, fmt.Sprintf(`{"ip":%q}`, a))
	}
	return `,"subsets":[{"addresses":[` + strings.Join(list, ",") + `],"notReadyAddresses":[{"ip":"9.9.9.9"}],"ports":[{"name":"http","port":80},{"port":81}]}]`
}

// slice is the same as an EndpointSlice.
func slice(addresses ...string) string {
	list := []string{`{"addresses":["9.9.9.9"],"conditions":{"ready":false}}`}
	for i, a := range addresses {
		conditions := []string{`,"conditions":{"ready":true}`, ``, `,"conditions":{}`}[i%3]
		list = append(list, fmt.Sprintf(`{"addresses":[%q]%s}`, a, conditions))
	}
	return `,"addressType":"IPv4","endpoints":[` + strings.Join(list, ",") + `],"ports":[{"name":"http","port":80},{"port":81}]`
}

func TestFollow(t *testing.T) {
	s := newServer(t, false)
	s.token = "t-1"
	s.set("ns/web", endpoints("10.0.0.1", "10.0.0.2"))
	s.set("other/web", endpoints("10.0.0.7"))
	r := start(t, s.config(`,"default_weight":7`))
	web := discoverytest.Use(t, r, "ns/web:http", "")
	discoverytest.Await(t, web, "10.0.0.1:80*7", "10.0.0.2:80*7")
	discoverytest.Await(t, discoverytest.Use(t, r, "ns/web:81", ""), "10.0.0.1:81*7", "10.0.0.2:81*7")
	discoverytest.Await(t, discoverytest.Use(t, r, "ns/web:https", ""))
	discoverytest.Await(t, discoverytest.Use(t, r, "ns/none:http", ""))
	var lists, watches int
	discoverytest.Until(t, func() bool {
		lists, watches = s.counts()
		return watches == 4
	}, func() string { return fmt.Sprintf("%d watches", watches) })
	s.set("ns/web", endpoints("10.0.0.3"))
	discoverytest.Await(t, web, "10.0.0.3:80*7")
	before := web.Known(time.Now())
	s.set("ns/other", endpoints("10.0.0.9"))
	s.bookmark()
	s.set("ns/web", "")
	discoverytest.Await(t, web)
	s.set("ns/web", endpoints("10.0.0.3"))
	discoverytest.Await(t, web, "10.0.0.3:80*7")
	if l, w := s.counts(); l != lists || w != watches {
		t.Errorf("%d lists and %d watches for changes", l-lists, w-watches)
	}
	if before == nil {
		t.Error("nothing was known")
	}
}

func TestSlices(t *testing.T) {
	s := newServer(t, true)
	for i := range 5 {
		s.set(fmt.Sprintf("ns/web-%d", i), slice(fmt.Sprintf("10.0.%d.1", i), "10.1.1.1"))
	}
	r := start(t, s.config(`,"label_selector":"a=b"`))
	web := discoverytest.Use(t, r, "ns/web:http", "")
	all := []string{"10.1.1.1:80*50"}
	for i := range 5 {
		all = append(all, fmt.Sprintf("10.0.%d.1:80*50", i))
	}
	discoverytest.Await(t, web, all...)
	s.mu.Lock()
	if !strings.Contains(s.query, "labelSelector=kubernetes.io%2Fservice-name%3Dweb%2Ca%3Db") {
		t.Errorf("query %s", s.query)
	}
	s.mu.Unlock()
	for i := range 4 {
		s.set(fmt.Sprintf("ns/web-%d", i), "")
	}
	discoverytest.Await(t, web, "10.0.4.1:80*50", "10.1.1.1:80*50")
	s.set("ns/web-4", slice())
	discoverytest.Await(t, web)
}

// TestGone: after a compaction the objects are listed anew, whichever way the
// server says so.
func TestGone(t *testing.T) {
	s := newServer(t, true)
	s.set("ns/web-1", slice("10.0.0.1"))
	s.set("ns/web-2", slice("10.0.0.2"))
	web := discoverytest.Use(t, start(t, s.config("")), "ns/web:http", "")
	discoverytest.Await(t, web, "10.0.0.1:80*50", "10.0.0.2:80*50")
	for i := range 4 {
		s.Fail(discoverytest.Refuse)
		s.set("ns/web-1", "")
		s.set("ns/web-2", slice(fmt.Sprintf("10.0.1.%d", i)))
		s.compact()
		s.Fail(discoverytest.None)
		discoverytest.Await(t, web, fmt.Sprintf("10.0.1.%d:80*50", i))
		s.set("ns/web-1", slice("10.0.0.1"))
		s.compact()
		discoverytest.Await(t, web, "10.0.0.1:80*50", fmt.Sprintf("10.0.1.%d:80*50", i))
	}
}

func TestFaults(t *testing.T) {
	for fault := discoverytest.Refuse; fault < discoverytest.Faults; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, false)
			s.set("ns/web", endpoints("10.0.0.1"))
			s.Fail(fault)
			web := discoverytest.Use(t, start(t, s.config("")), "ns/web:http", "")
			if _, err := web.Nodes(t.Context(), time.Now()); err == nil {
				t.Error("no failure")
			}
			s.Fail(discoverytest.None)
			discoverytest.Await(t, web, "10.0.0.1:80*50")
			s.Fail(fault)
			s.set("ns/web", "")
			n := s.Requests.Load()
			discoverytest.Until(t, func() bool { return s.Requests.Load() > n+2 }, func() string { return "it gave up" })
			discoverytest.Await(t, web, "10.0.0.1:80*50")
			s.Fail(discoverytest.None)
			discoverytest.Await(t, web)
		})
	}
}

// TestNoWatch: without the right to watch, lists go on but ever more rarely.
func TestNoWatch(t *testing.T) {
	s := newServer(t, false)
	s.refuse = true
	s.set("ns/web", endpoints("10.0.0.1"))
	web := discoverytest.Use(t, start(t, s.config("")), "ns/web:http", "")
	discoverytest.Await(t, web, "10.0.0.1:80*50")
	s.set("ns/web", endpoints("10.0.0.2"))
	discoverytest.Await(t, web, "10.0.0.2:80*50")
}

// TestShortWatches: a server that ends watches at once is not asked without a
// pause.
func TestShortWatches(t *testing.T) {
	s := newServer(t, false)
	s.end = true
	began := time.Now()
	web := discoverytest.Use(t, start(t, s.config("")), "ns/web:http", "")
	discoverytest.Await(t, web)
	time.Sleep(3 * leastWatch)
	if _, watches := s.counts(); watches > 2+int(time.Since(began)/leastWatch) {
		t.Errorf("%d watches", watches)
	}
}

func TestClusters(t *testing.T) {
	a, b := newServer(t, false), newServer(t, true)
	a.set("ns/web", endpoints("10.0.0.1"))
	b.set("ns/web-1", slice("10.0.0.2"))
	r := start(t, "["+a.config(`,"id":"a"`)+","+b.config(`,"id":"b"`)+"]")
	discoverytest.Await(t, discoverytest.Use(t, r, "a/ns/web:http", ""), "10.0.0.1:80*50")
	discoverytest.Await(t, discoverytest.Use(t, r, "b/ns/web:http", ""), "10.0.0.2:80*50")
	discoverytest.Await(t, discoverytest.Use(t, r, "b/ns/web:81", ""), "10.0.0.2:81*50")
	for _, name := range []string{"c/ns/web:http", "ns/web:http", "web", "a/ns/web", ":", "a/ns/:http", "a/b/ns/web:http"} {
		if _, err := discoverytest.Use(t, r, name, "").Nodes(t.Context(), time.Now()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	w := httptest.NewRecorder()
	r.Handlers()["GET /v1/discovery/kubernetes/dump"].ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	want := `"endpoints":[{"id":"a","endpoints":[{"name":"ns/web","value":"{\"http\":[{\"host\":\"10.0.0.1\",\"port\":80,\"weight\":50}]}"}]},` +
		`{"id":"b","endpoints":[{"name":"ns/web","value":"{\"81\":[{\"host\":\"10.0.0.2\",\"port\":81,\"weight\":50}],\"http\":[{\"host\":\"10.0.0.2\",\"port\":80,\"weight\":50}]}"}]}]}`
	if body := w.Body.String(); !strings.Contains(body, want) || strings.Contains(body, "t-1") {
		t.Errorf("%s", body)
	}
}

func TestNamespaces(t *testing.T) {
	s := newServer(t, false)
	for _, ns := range []string{"a", "ab", "b"} {
		s.set(ns+"/web", endpoints("10.0.0.1"))
	}
	for selector, want := range map[string]string{
		`{}`:                        "a ab b",
		`{"equal":"a"}`:             "a",
		`{"not_equal":"a"}`:         "ab b",
		`{"match":["a","x"]}`:       "a",
		`{"match":["a.*"]}`:         "a ab",
		`{"not_match":["a|x","b"]}`: "ab",
		`{"not_match":["nothing"]}`: "a ab b",
	} {
		r := start(t, s.config(`,"namespace_selector":`+selector))
		var in []string
		for _, ns := range []string{"a", "ab", "b"} {
			list, err := discoverytest.Use(t, r, ns+"/web:http", "").Nodes(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Nodes) > 0 {
				in = append(in, ns)
			}
		}
		if got := strings.Join(in, " "); got != want {
			t.Errorf("%s: %s, want %s", selector, got, want)
		}
	}
}

// awaitFailure waits until asking fails for a reason.
func awaitFailure(t *testing.T, s upstream.Service, reason string) {
	t.Helper()
	var err error
	discoverytest.Until(t, func() bool {
		_, err = s.Nodes(t.Context(), time.Now())
		return err != nil && strings.Contains(err.Error(), reason)
	}, func() string { return fmt.Sprintf("%v, want %s", err, reason) })
}

// TestTokenFile: a token that has changed in its file is taken.
func TestTokenFile(t *testing.T) {
	s := newServer(t, false)
	s.token = "new"
	s.set("ns/web", endpoints("10.0.0.1"))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKEN_FILE", file)
	host, port, _ := strings.Cut(s.Listener.Addr().String(), ":")
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	r := start(t, `{"service":{"schema":"http"},"client":{"token_file":"${TOKEN_FILE}"}}`)
	web := discoverytest.Use(t, r, "ns/web:http", "")
	awaitFailure(t, web, "status 401")
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	discoverytest.Await(t, web, "10.0.0.1:80*50")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("EMPTY", "")
	t.Setenv("PORT", "70000")
	for raw, want := range map[string]string{
		`{"service":{"host":"${NOT_THERE_1}","port":"1"},"client":{"token":"t"}}`: "not found environment variable NOT_THERE_1",
		`{"service":{"host":"${EMPTY}","port":"1"},"client":{"token":"t"}}`:       "service.host should set to non-empty string",
		`{"service":{"host":"h","port":"${PORT}"},"client":{"token":"t"}}`:        "invalid port value: 70000",
		`{"service":{"host":"h","port":"${EMPTY}"},"client":{"token":"t"}}`:       "invalid port value: ",
		`{"service":{"host":"h","port":6443},"client":{"token":"${EMPTY}"}}`:      "apiserver.token should set to non-empty string when service.schema is https",
		`{"service":{"host":"h","port":"1"},"client":{"token_file":"/none/x"}}`:   "open /none/x: no such file or directory",
	} {
		r := start(t, raw)
		if _, err := discoverytest.Use(t, r, "a/b:c", "").Nodes(t.Context(), time.Now()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

// TestTLS: the certificate is verified only if that is configured.
func TestTLS(t *testing.T) {
	s := newServer(t, false)
	s.set("ns/web", endpoints("10.0.0.1"))
	secure := httptest.NewTLSServer(s.Config.Handler)
	t.Cleanup(func() { secure.CloseClientConnections(); secure.Close() })
	host, port, _ := strings.Cut(secure.Listener.Addr().String(), ":")
	config := fmt.Sprintf(`{"service":{"host":%q,"port":%q,"ssl_verify":%%v},"client":{"token":"t"}}`, host, port)
	discoverytest.Await(t, discoverytest.Use(t, start(t, fmt.Sprintf(config, false)), "ns/web:http", ""), "10.0.0.1:80*50")
	awaitFailure(t, discoverytest.Use(t, start(t, fmt.Sprintf(config, true)), "ns/web:http", ""), "certificate")
}

func TestConfig(t *testing.T) {
	element := `"service":{"host":"h","port":"1"},"client":{"token":"t"}`
	for raw, valid := range map[string]bool{
		`{}`:                           true,
		`[]`:                           false,
		`7`:                            false,
		`{"service":{"schema":"ftp"}}`: false,
		`{"default_weight":-1}`:        false,
		`{"namespace_selector":{"equal":"a","match":["b"]}}`:         false,
		`{"namespace_selector":{"match":["("]}}`:                     false,
		`{"namespace_selector":{"match":[]}}`:                        false,
		`[{"id":"a",` + element + `}]`:                               true,
		`[{"id":"a",` + element + `},{"id":"b",` + element + `}]`:    true,
		`[{"id":"a",` + element + `},{"id":"a",` + element + `}]`:    false,
		`[{` + element + `}]`:                                        false,
		`[{"id":"A",` + element + `}]`:                               false,
		`[{"id":"cluster-1",` + element + `}]`:                       false,
		`[{"id":"` + strings.Repeat("a", 64) + `",` + element + `}]`: true,
		`[{"id":"` + strings.Repeat("a", 65) + `",` + element + `}]`: false,
		`[{"id":"a","service":{"host":"h"},"client":{"token":"t"}}]`: false,
		`[{"id":"a","service":{"host":"h","port":"1"},"client":{}}]`: false,
		`[{"id":"a","service":{"host":"h","port":"1"}}]`:             false,
		`[{"id":"a","client":{"token":"t"}}]`:                        false,
		`[7]`:                                                        false,
	} {
		r, err := New(json.RawMessage(raw), discovery.Env{})
		if (err == nil) != valid {
			t.Errorf("%s: %v", raw, err)
		}
		if err == nil {
			r.Close()
		}
	}
}

func TestDifferential(t *testing.T) {
	s := newServer(t, true)
	r := start(t, s.config(""))
	rnd := rand.New(rand.NewPCG(9, 10))
	services := []string{"a", "b", "c", "d", "e", "f"}
	want := map[string]map[string][]string{}
	for _, name := range services {
		want[name] = map[string][]string{}
	}
	for step := range 300 {
		name, object := services[rnd.IntN(len(services))], fmt.Sprint(rnd.IntN(3))
		var addresses, nodes []string
		for i := range rnd.IntN(4) {
			addresses = append(addresses, fmt.Sprintf("10.0.%s.%d", object, i))
			nodes = append(nodes, fmt.Sprintf("10.0.%s.%d:80*50", object, i))
		}
		want[name][object] = nodes
		members := slice(addresses...)
		if len(addresses) == 0 && rnd.IntN(2) == 0 {
			members = ""
		}
		s.set("ns/"+name+"-"+object, members)
		f, err := r.Discovery(&model.Upstream{ServiceName: "ns/" + services[rnd.IntN(len(services))] + ":http"})
		if err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(3) > 0 {
			f.Close()
		} else {
			defer f.Close()
		}
		switch rnd.IntN(25) {
		case 0:
			s.Fail(discoverytest.Fault(rnd.IntN(int(discoverytest.Faults))))
		case 1, 2:
			s.Fail(discoverytest.None)
		case 3:
			s.compact()
		case 4:
			s.CloseClientConnections()
		case 5:
			s.bookmark()
		}
		if step%20 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	s.Fail(discoverytest.None)
	for _, name := range services {
		var nodes []string
		for _, object := range want[name] {
			nodes = append(nodes, object...)
		}
		slices.Sort(nodes)
		discoverytest.Await(t, discoverytest.Use(t, r, "ns/"+name+":http", ""), nodes...)
	}
}

func FuzzObject(f *testing.F) {
	f.Add(`{"metadata":{"name":"a"}` + endpoints("1.1.1.1") + `}`)
	f.Add(`{"metadata":{"name":"a"}` + slice("1.1.1.1") + `}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var o object
		if json.Unmarshal([]byte(raw), &o) != nil {
			return
		}
		seen := map[string]bool{}
		for _, n := range distinct(o.nodes("http", 1)) {
			if at := fmt.Sprintf("%s:%d", n.Host, n.Port); seen[at] {
				t.Errorf("%s twice in %s", at, raw)
			} else {
				seen[at] = true
			}
		}
	})
}

// handed is a Backend that gives its feed to the test.
type handed chan *discovery.Feed

func (h handed) Target(*model.Upstream) (discovery.Target, error) {
	return discovery.Target{Key: "a", Follow: func(ctx context.Context, f *discovery.Feed) {
		h <- f
		<-ctx.Done()
	}}, nil
}

func (handed) Close() {}

// FuzzWatch: after any events, what upstreams see is what the objects that are
// left have, each node once.
func FuzzWatch(f *testing.F) {
	line := func(kind, name, rest string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q,"resourceVersion":"7"}%s}}`, kind, name, rest)
	}
	f.Add(line("ADDED", "a", endpoints("10.0.0.1")) + line("MODIFIED", "a", endpoints("10.0.0.2")) + line("DELETED", "a", ""))
	f.Add(line("ADDED", "a", slice("10.0.0.1", "::1")) + line("ADDED", "b", slice("10.0.0.1")) + line("BOOKMARK", "", "") + `{"type":"ERROR","object":{"code":410}}`)
	f.Add(line("ADDED", "a", endpoints("", "a b", "c/d")) + `{"type":"ADDED","object":null}`)
	h := make(handed)
	r := discovery.New(discovery.Config{Backend: h})
	r.Start()
	defer r.Close()
	use := discoverytest.Use(f, r, "a", "")
	feed := <-h
	f.Fuzz(func(t *testing.T, events string) {
		feed.Set(nil)
		w := &follower{cluster: &cluster{config: &Config{DefaultWeight: 1}}, service: service{port: "http"}, feed: feed, nodes: map[string][]discovery.Node{}}
		left := map[string]*object{}
		for d := json.NewDecoder(strings.NewReader(events)); ; {
			var e event
			if d.Decode(&e) != nil || w.take(&e) != nil {
				break
			}
			o := new(object)
			if err := json.Unmarshal(e.Object, o); err != nil || o.Metadata.ResourceVersion != w.version {
				t.Fatalf("%s was taken: %v", e.Object, err)
			}
			switch e.Type {
			case "ADDED", "MODIFIED":
				left[o.Metadata.Name] = o
			case "DELETED":
				delete(left, o.Metadata.Name)
			}
		}
		want := map[string]bool{}
		for _, o := range left {
			for _, n := range o.nodes("http", 1) {
				if n.Host != "" && n.Port >= 0 && n.Port < 1<<16 && !strings.ContainsAny(n.Host, " /\r\n\t") {
					want[fmt.Sprintf("%s:%d", n.Host, n.Port)] = true
				}
			}
		}
		got := use.Known(time.Time{}).Nodes
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", events, got, want)
		}
	})
}
