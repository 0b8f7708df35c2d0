package admin

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAuthentication(t *testing.T) {
	for _, c := range []struct {
		name, method, query, header, cookie string
		required                            bool
		status                              int
		want                                string
	}{
		{"missing", "GET", "", "", "", true, 401, "missing apikey"},
		{"wrong", "GET", "", "x", "", true, 401, "wrong apikey"},
		{"empty", "GET", "?api_key=", "", "", true, 401, "wrong apikey"},
		{"prefix of one", "GET", "", adminKey[:31], "", true, 401, "wrong apikey"},
		{"header", "GET", "", adminKey, "", true, 200, ""},
		{"query", "GET", "?api_key=" + adminKey, "", "", true, 200, ""},
		{"query before header", "GET", "?api_key=x", adminKey, "", true, 401, "wrong apikey"},
		{"cookie", "GET", "", "", adminKey, true, 200, ""},
		{"header before cookie", "GET", "", "x", adminKey, true, 401, "wrong apikey"},
		{"viewer reads", "GET", "", viewerKey, "", true, 200, ""},
		{"viewer writes", "PUT", "", viewerKey, "", true, 401, "invalid method for role viewer"},
		{"viewer deletes", "DELETE", "", viewerKey, "", true, 401, "invalid method for role viewer"},
		{"not required", "GET", "", "", "", false, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(cfg *Config, _ *Deps) { cfg.KeyRequired = c.required })
			r := httptest.NewRequest(c.method, "/apisix/admin/routes"+c.query, nil)
			if c.header != "" {
				r.Header.Set("X-API-KEY", c.header)
			}
			if c.cookie != "" {
				r.Header.Set("Cookie", "a=b; x_api_key="+c.cookie)
			}
			w := b.serve(r)
			want := `{"list":[],"total":0}`
			if c.want != "" {
				want = `{"error_msg":"failed to check token","description":"` + c.want + `"}`
			}
			if w.Code != c.status || strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.status, want)
			}
			if v := w.Header().Get("X-API-VERSION"); (v == "v3") != (c.status == 200) {
				t.Errorf("X-API-VERSION is %q", v)
			}
		})
	}
}

func TestNoKeyOpensNothing(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.Keys = []Key{{"admin", "", "admin"}} })
	for _, key := range []string{"", "x"} {
		r := httptest.NewRequest("GET", "/apisix/admin/routes", nil)
		r.Header["X-Api-Key"] = []string{key}
		if w := b.serve(r); w.Code != 401 {
			t.Errorf("key %q: status %d", key, w.Code)
		}
	}
}

// Pages of other origins do not get at an API without keys, whatever CORS says.
func TestPagesWithoutKey(t *testing.T) {
	for _, c := range []struct {
		required       bool
		method, origin string
		want           int
	}{
		{false, "PUT", "", 201}, {false, "PUT", "http://localhost:9180", 201}, {false, "PUT", "http://evil.test", 403}, {false, "POST", "null", 403},
		{false, "DELETE", "http://evil.test", 403}, {false, "OPTIONS", "http://evil.test", 404}, {false, "GET", "http://evil.test", 200},
		{true, "PUT", "http://dashboard.test", 201},
	} {
		b := newBench(t, func(cfg *Config, _ *Deps) { cfg.KeyRequired = c.required })
		path := "/apisix/admin/services/1"
		if c.method == "GET" {
			path = "/apisix/admin/services"
		}
		r := httptest.NewRequest(c.method, "http://localhost:9180"+path, strings.NewReader("{}"))
		r.Header.Set("X-API-KEY", adminKey)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := b.serve(r)
		if w.Code != c.want || c.want == 403 && !strings.Contains(w.Body.String(), "without admin keys") {
			t.Errorf("%s from %q: %d %s, want %d", c.method, c.origin, w.Code, w.Body, c.want)
		}
		if shared := w.Header().Get("Access-Control-Allow-Origin") != ""; shared != c.required {
			t.Errorf("%s from %q: CORS is %v", c.method, c.origin, shared)
		}
	}
}

func TestAllow(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")} })
	for from, want := range map[string]int{"127.0.0.9:1": 200, "127.0.1.1:1": 403, "[::ffff:127.0.0.1]:1": 200, "[::1]:1": 403, "": 403} {
		r := httptest.NewRequest("HEAD", "/apisix/admin", nil)
		r.RemoteAddr = from
		if w := b.serve(r); w.Code != want {
			t.Errorf("%s: status %d, want %d", from, w.Code, want)
		}
	}
}

func TestTransport(t *testing.T) {
	b := newBench(t, nil)
	plain := func(method, path string) *httptest.ResponseRecorder {
		return b.serve(httptest.NewRequest(method, path, nil))
	}

	w := plain("HEAD", "/apisix/admin")
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Server") != "Weir" {
		t.Errorf("HEAD: %d %q %v", w.Code, w.Body, w.Header())
	}
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "*", "Access-Control-Max-Age": "3600",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	w = plain("OPTIONS", "/any/thing")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST, GET, PUT, OPTIONS, DELETE, PATCH", "Access-Control-Max-Age": "3600",
		"Access-Control-Allow-Headers": "*", "Access-Control-Allow-Credentials": "true", "Content-Length": "0", "Content-Type": "text/plain",
	} {
		if got := w.Header().Get(name); got != want || w.Code != 200 {
			t.Errorf("OPTIONS: %d %s: %q, want %q", w.Code, name, got, want)
		}
	}
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/apisix/admin"}, {"HEAD", "/apisix/admin/routes"}, {"OPTIONS2", "/apisix/admin/routes"}, {"GET", "/apisix/adminx/routes"}} {
		if w := plain(c[0], c[1]); w.Code != 404 || w.Body.Len() != 0 {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
	b = newBench(t, func(cfg *Config, _ *Deps) { cfg.CORS = false })
	if w := plain("OPTIONS", "/apisix/admin/routes"); w.Code != 404 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without CORS: %d %v", w.Code, w.Header())
	}
}

func TestBodies(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ body, want string }{
		{"", `{"error_msg":"missing configurations"}`},
		{"abc", `{"error_msg":"invalid request body: Expected value but found invalid token at character 1","req_body":"abc"}`},
		{`{"uri":"/a",}`, `{"error_msg":"invalid request body: Expected object key string but found T_OBJ_END at character 13","req_body":"{\"uri\":\"/a\",}"}`},
		{`"a"`, `{"error_msg":"invalid configuration: wrong type: expected object, got string"}`},
		{`null`, `{"error_msg":"invalid configuration: wrong type: expected object, got userdata"}`},
		{`[]`, `{"error_msg":"invalid configuration: wrong type: expected object, got table"}`},
		{`{"uri":1,"plugins":{}}`, `{"error_msg":"invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number"}`},
		{strings.Repeat(" ", maxBody+1), `{"error_msg":"invalid request body: request size 1572865 is greater than the maximum size 1572864 allowed"}`},
	} {
		if w := b.send("PUT", "/apisix/admin/routes/1", c.body); w.Code != 400 || strings.TrimSpace(w.Body.String()) != c.want {
			t.Errorf("%.20q: got %d %s, want %s", c.body, w.Code, w.Body, c.want)
		}
	}
	r := httptest.NewRequest("PUT", "/apisix/admin/routes/1", strings.NewReader(strings.Repeat(" ", maxBody+9)))
	r.ContentLength = -1
	r.Header.Set("X-API-KEY", adminKey)
	if w := b.serve(r); w.Code != 400 || !strings.Contains(w.Body.String(), "greater than the maximum size 1572864 allowed") {
		t.Errorf("chunked: %d %s", w.Code, w.Body)
	}
	if len(b.store.kvs) != 0 {
		t.Errorf("stored: %v", b.store.kvs)
	}
}

func TestStorageFailure(t *testing.T) {
	b := newBench(t, nil)
	b.send("PUT", "/apisix/admin/routes/1", `{"uri":"/a","plugins":{}}`)
	b.store.broken = errors.New("etcd embedded: get /apisix/routes/1: the store is not available")
	for _, c := range []struct{ method, path, body string }{
		{"GET", "routes/1", ""}, {"GET", "routes", ""}, {"PUT", "routes/1", `{"uri":"/a","plugins":{}}`}, {"POST", "routes", `{"uri":"/a","plugins":{}}`},
		{"PATCH", "routes/1", `{}`}, {"DELETE", "routes/1", ""}, {"PUT", "consumers/a/credentials/b", `{}`}, {"PUT", "global_rules/1", `{"plugins":{}}`},
		{"PUT", "routes/1", `{"uri":"/a","upstream_id":"1"}`},
	} {
		w := b.send(c.method, "/apisix/admin/"+c.path, c.body)
		if want := `{"error_msg":"` + b.store.broken.Error() + `"}`; w.Code != 503 || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

func TestAck(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.AckTimeout = time.Millisecond })
	w := b.send("PUT", "/apisix/admin/upstreams/1", `{"nodes":{}}`)
	if w.Code != 201 || w.Header().Get("X-Weir-Revision") != "1" || w.Header().Get("X-Weir-Applied") != "" {
		t.Errorf("live: %d %v", w.Code, w.Header())
	}
	b.applier.stuck = true
	for i, c := range []struct {
		method, path, body string
		status             int
		revision           string
	}{
		{"PUT", "upstreams/1", `{"nodes":{}}`, 200, "2"}, {"POST", "upstreams", `{"nodes":{}}`, 201, "4"},
		{"PATCH", "upstreams/1", `{"desc":"d"}`, 200, "5"}, {"DELETE", "upstreams/1", "", 200, "6"},
	} {
		w := b.send(c.method, "/apisix/admin/"+c.path, c.body)
		if w.Code != c.status || w.Header().Get("X-Weir-Revision") != c.revision || w.Header().Get("X-Weir-Applied") != "false" {
			t.Errorf("%d: %d %s %v", i, w.Code, w.Body, w.Header())
		}
	}
	if n := len(b.changes); n != 5 || b.changes[4].Action != "delete" || b.changes[4].Live || b.changes[0].Who != "admin" || b.changes[0].Object.String() != "upstreams/1" || !b.changes[0].Live {
		t.Errorf("recorded: %+v", b.changes)
	}
	if w := b.send("GET", "/apisix/admin/upstreams", ""); w.Header().Get("X-Weir-Revision") != "" {
		t.Error("a read has a revision")
	}
}

func BenchmarkPut(b *testing.B) {
	bench := newBench(b, func(_ *Config, d *Deps) { d.Record = nil })
	const doc = `{"uri":"/a","name":"n","methods":["GET","POST"],"upstream":{"nodes":{"10.0.0.1:80":1,"10.0.0.2:80":1},"type":"roundrobin"},"plugins":{"limit-count":{"count":2},"key-auth":{}}}`
	b.ReportAllocs()
	for b.Loop() {
		if w := bench.send("PUT", "/apisix/admin/routes/1", doc); w.Code > 201 {
			b.Fatal(w.Body)
		}
	}
}
