package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestProductCache: answers are kept and given again over sockets, whatever the
// client asks of them (apicast.md §6.2, content_caching).
func TestProductCache(t *testing.T) {
	var asked atomic.Int64
	var methods atomic.Value
	methods.Store("")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		methods.Store(r.Method)
		h := w.Header()
		h.Set("ETag", `"e"`)
		h.Set("X-Up", "1")
		switch r.URL.Path {
		case "/stale":
			h.Set("Cache-Control", "max-age=1, stale-if-error=1000")
		case "/cut":
			h.Set("Content-Length", "1000")
		case "/private":
			h.Set("Cache-Control", "private")
		}
		io.WriteString(w, "body of ")
		if r.URL.Path == "/chunks" {
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, r.URL.Path)
	}))
	defer up.Close()
	product := fmt.Sprintf(`{"id":1,"proxy":{"hosts":["one.test"],"policy_chain":[
		{"name":"apicast.policy.headers","configuration":{"response":[{"op":"push","header":"X-Pushed","value":"1"}]}},
		{"name":"apicast.policy.content_caching","configuration":{"rules":[{"cache":true,"header":"X-Cache-Status"}]}},
		{"name":"apicast.policy.upstream","configuration":{"rules":[{"regex":"/","url":%q}]}}]}}`, up.URL)
	o, _ := accountOptions(t, t.TempDir(), "data:application/json,"+strings.ReplaceAll(productsOf(product), "\n", ""))
	g := start(t, o)
	defer stop(t, g)
	ask := func(method, path string, fields ...string) (status int, cache, body string, h http.Header) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+g.Products()[0].String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "one.test"
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body) // cut, in one case
		return res.StatusCode, res.Header.Get("X-Cache-Status"), string(b), res.Header
	}
	want := func(method, path, wanted string, fields ...string) http.Header {
		t.Helper()
		status, cache, body, h := ask(method, path, fields...)
		if got := fmt.Sprintf("%d %s %s", status, cache, body); got != wanted {
			t.Errorf("%s %s %v: %q, want %q", method, path, fields, got, wanted)
		}
		return h
	}
	for _, path := range []string{"/plain", "/chunks"} {
		want("GET", path, "200 MISS body of "+path)
		h := want("GET", path, "200 HIT body of "+path)
		if h.Get("X-Up") != "1" || len(h.Values("X-Pushed")) != 1 || len(h.Values("Date")) != 1 || h.Get("Age") == "" || h.Get("Content-Length") == "" {
			t.Errorf("%s: %v", path, h)
		}
		want("GET", path, "304 HIT ", "If-None-Match", `"e"`)
		want("GET", path, "206 HIT body", "Range", "bytes=0-3")
		want("HEAD", path, "200 MISS ")
		if m := methods.Load(); m != "GET" {
			t.Errorf("the upstream is asked by %s", m)
		}
		want("HEAD", path, "200 HIT ")
	}
	// What the client does not want is kept all the same.
	want("GET", "/new", "304 MISS ", "If-None-Match", `"e"`)
	want("GET", "/new", "200 HIT body of /new")
	want("GET", "/private", "200 MISS body of /private")
	want("GET", "/private", "200 MISS body of /private")
	for range 2 {
		if _, cache, _, _ := ask("GET", "/cut"); cache != "MISS" {
			t.Errorf("a cut answer: %s", cache)
		}
	}
	want("GET", "/stale", "200 MISS body of /stale")
	before := asked.Load()
	want("GET", "/stale", "200 HIT body of /stale")
	if asked.Load() != before {
		t.Error("the upstream is asked for what is kept")
	}
	up.Close()
	time.Sleep(1100 * time.Millisecond)
	h := want("GET", "/stale", "200 STALE body of /stale")
	if h.Get("X-Up") != "1" || len(h.Values("X-Pushed")) != 1 {
		t.Errorf("stale: %v", h)
	}
	want("GET", "/plain", "200 HIT body of /plain")
	if status, cache, _, _ := ask("GET", "/none"); status < 500 || cache != "MISS" {
		t.Errorf("the upstream is down: %d %s", status, cache)
	}
}
