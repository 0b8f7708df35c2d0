package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLoggerLosesNothing: what a logger has collected is sent when its
// configuration changes, when its metadata does, and when the gateway stops.
func TestLoggerLosesNothing(t *testing.T) {
	var entries atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		entries.Add(int64(strings.Count(string(b), `"route_id":"example"`)))
	}))
	defer sink.Close()
	o, _ := options(t, t.TempDir(), withKey)
	o.Example = true
	g := start(t, o)
	rule := func(more string) {
		t.Helper()
		conf := fmt.Sprintf(`{"plugins":{"http-logger":{"uri":%q,"inactive_timeout":3600,"buffer_duration":3600%s}}}`, sink.URL, more)
		if status, answer := do(t, g, "PUT", "/global_rules/1", conf); status >= 300 {
			t.Fatal(status, answer)
		}
	}
	sent := 0
	requests := func() {
		t.Helper()
		for range 10 {
			sent++
			if status, _ := get(t, "http://"+g.Data()[0].String()+"/hello", "apikey", exampleKey); status != 200 {
				t.Fatal(status)
			}
		}
	}
	rule("")
	requests()
	rule(`,"batch_max_size":7`)
	requests()
	if status, answer := do(t, g, "PUT", "/plugin_metadata/http-logger", `{"log_format":{"host":"$host"}}`); status >= 300 {
		t.Fatal(status, answer)
	}
	requests()
	if status, answer := do(t, g, "DELETE", "/global_rules/1", ""); status >= 300 {
		t.Fatal(status, answer)
	}
	rule("")
	requests()
	stop(t, g)
	if got := entries.Load(); got != int64(sent) {
		t.Errorf("%d entries of %d requests arrived", got, sent)
	}
}

// TestMirror: the mirror gets what the upstream gets, bodies of any kind
// included.
func TestMirror(t *testing.T) {
	got := make(chan string, 1)
	mirror := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %s %s %d %v", r.Method, r.RequestURI, r.Header.Get("X-Consumer-Username"), len(b), err)
	}))
	defer mirror.Close()
	o, _ := options(t, t.TempDir(), withKey)
	o.Example = true
	g := start(t, o)
	defer stop(t, g)
	if status, answer := do(t, g, "PUT", "/global_rules/1", fmt.Sprintf(`{"plugins":{"proxy-mirror":{"host":%q}}}`, mirror.URL)); status != 201 {
		t.Fatal(status, answer)
	}
	for name, body := range map[string]io.Reader{
		"none": nil, "counted": strings.NewReader(strings.Repeat("x", 300_000)),
		"chunked": io.MultiReader(strings.NewReader(strings.Repeat("x", 300_000))), "small": strings.NewReader("abc"),
	} {
		size := map[string]int{"counted": 300_000, "chunked": 300_000, "small": 3}[name]
		req, err := http.NewRequest("POST", "http://"+g.Data()[0].String()+"/hello?a=%20", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("apikey", exampleKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		want := fmt.Sprintf("POST /hello?a=%%20 jack %d <nil>", size)
		if text := <-got; text != want {
			t.Errorf("%s: got %q, want %q", name, text, want)
		}
	}
}
