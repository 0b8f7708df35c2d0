package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/source/embed"
	"weir/internal/source/etcd"
)

// served is the API over HTTP before a real store.
type served struct {
	t      *testing.T
	url    string
	server *embed.Server
}

func serve(t *testing.T) served {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server, err := embed.Start(ctx, embed.Config{Dir: t.TempDir(), Listen: embed.Off})
	if err != nil {
		t.Fatal(err)
	}
	store := etcd.New(server.Client(), etcd.Config{Prefix: prefix})
	b := newBench(t, func(_ *Config, d *Deps) { d.Store, d.Record = store, nil })
	web := httptest.NewServer(b.api)
	t.Cleanup(func() {
		web.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return served{t, web.URL, server}
}

// call returns the status, the revision of the write and the body.
func (s served) call(method, path, body string) (status int, revision, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/apisix/admin/"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", adminKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("X-Weir-Revision"), strings.TrimSuffix(string(raw), "\n")
}

func TestRealStore(t *testing.T) {
	s := serve(t)
	if _, err := s.server.Client().Put(t.Context(), "/apisix/routes/", "init_dir"); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		method, path, body string
		status             int
		part               string
	}{
		{"GET", "routes", "", 200, `{"list":[],"total":0}`},
		{"PUT", "upstreams/u", `{"nodes":{"a:80":1}}`, 201, `{"key":"/apisix/upstreams/u","value":{"id":"u","nodes":{"a:80":1},"create_time":1000,"update_time":1000}}`},
		{"PUT", "upstreams/u", `{"nodes":{"a:80":2}}`, 200, `{"nodes`[1:]},
		{"PUT", "routes/r", `{"uri":"/a","upstream_id":"u"}`, 201, `"id":"r"`},
		{"GET", "routes", "", 200, `"total":1}`},
		{"POST", "routes", `{"uri":"/b","upstream_id":"u"}`, 201, `{"key":"/apisix/routes/0000000000000000000`},
		{"PATCH", "routes/r", `{"desc":"d"}`, 200, `"desc":"d"`},
		{"PATCH", "routes/r/desc", `"e"`, 200, `"desc":"e"`},
		{"PUT", "consumers/jack", `{"username":"jack",` + keyAuthA + `}`, 201, sealedA},
		{"PUT", "consumers/jack/credentials/c", `{"plugins":{"key-auth":{"key":"two"}}}`, 201, `"/apisix/consumers/jack/credentials/c"`},
		{"GET", "consumers", "", 200, `"total":1}`},
		{"GET", "consumers/jack/credentials", "", 200, `"key":"two"`},
		{"DELETE", "consumers/jack", "", 200, `{"deleted":"1","key":"/apisix/consumers/jack"}`},
		{"GET", "consumers/jack/credentials/c", "", 404, missing},
		{"DELETE", "routes/nothing", "", 404, missing},
	} {
		status, revision, body := s.call(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(body, c.part) {
			t.Errorf("step %d: %s %s: %d %s, want %d %s", i+1, c.method, c.path, status, body, c.status, c.part)
		}
		if wrote := c.method != "GET" && status < 300; (revision != "") != wrote {
			t.Errorf("step %d: revision %q", i+1, revision)
		}
	}
}

func TestRealStoreConcurrency(t *testing.T) {
	s := serve(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 16 {
		wg.Go(func() {
			status, _, body := s.call("PUT", "services/s", fmt.Sprintf(`{"name":"n%d"}`, i))
			mu.Lock()
			defer mu.Unlock()
			if statuses[status]++; status > 201 {
				t.Error(status, body)
			}
		})
	}
	wg.Wait()
	if statuses[201] != 1 || statuses[200] != 15 {
		t.Errorf("statuses: %v", statuses)
	}
}

func TestRealStoreTTL(t *testing.T) {
	s := serve(t)
	status, revision, body := s.call("PUT", "routes/r?ttl=1", okRoute)
	wrote, err := strconv.ParseInt(revision, 10, 64)
	if status != 201 || err != nil {
		t.Fatal(status, body, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for res := range s.server.Client().Watch(ctx, "/apisix/routes/r", clientv3.WithRev(wrote)) {
		for _, e := range res.Events {
			if e.IsCreate() || e.IsModify() {
				continue
			}
			if status, _, body := s.call("GET", "routes/r", ""); status != 404 {
				t.Errorf("%d %s", status, body)
			}
			return
		}
	}
	t.Error("the route did not vanish")
}
