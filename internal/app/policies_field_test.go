package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A policy is one of a chain, with its configuration.
type policy struct {
	Name   string `json:"name"`
	Config any    `json:"configuration"`
}

type object = map[string]any

// chained is the document of a product with a chain, which ends with what sends
// requests to the URL, if there is one.
func chained(t testing.TB, host, url string, chain ...policy) string {
	t.Helper()
	if url != "" {
		chain = append(chain, policy{"upstream", object{"rules": []object{{"regex": "/", "url": url}}}})
	}
	b, err := json.Marshal(object{"id": host, "proxy": object{"hosts": []string{host}, "policy_chain": chain}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// startProducts runs a gateway with products.
func startProducts(t testing.TB, services ...string) (*Gateway, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "products.json")
	if err := os.WriteFile(file, []byte(productsOf(services...)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := accountOptions(t, dir, file)
	return start(t, o), dir
}

// call sends a request for a host and returns the answer.
func call(t testing.TB, g *Gateway, method, host, target, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+g.Products()[0].String()+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// target answers with the target that it was asked for.
func target(t testing.TB) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))
	t.Cleanup(s.Close)
	return s
}

// TestFieldRouting is case 127: what was escaped is not escaped again.
func TestFieldRouting(t *testing.T) {
	up := target(t)
	rule := func(more object) policy {
		r := object{"url": up.URL + "/base", "condition": object{"operations": []object{}}}
		for k, v := range more {
			r[k] = v
		}
		return policy{"routing", object{"rules": []object{r}}}
	}
	g, _ := startProducts(t,
		chained(t, "plain.test", "", rule(nil)),
		chained(t, "replaced.test", "", rule(object{"replace_path": "{{ original_request.path }}"})),
		chained(t, "rewritten.test", up.URL, policy{"url_rewriting", object{"commands": []object{{"op": "sub", "regex": "test", "replace": "a b"}}}}),
	)
	defer stop(t, g)
	for _, c := range []struct{ host, asked, want string }{
		{"plain.test", "/foo/test%20space?a=%20+", "/base/foo/test%20space?a=%20+"},
		{"replaced.test", "/foo/test%20space?a=%20+", "/base/foo/test%20space?a=%20+"},
		{"rewritten.test", "/foo/test%20space", "/foo/a%20b%20space"},
	} {
		if status, got := call(t, g, "GET", c.host, c.asked, ""); status != 200 || got != c.want {
			t.Errorf("%s: %d %s, want %s", c.host, status, got, c.want)
		}
	}
}

// forward is a forward proxy: it connects tunnels and passes on what has an
// absolute target.
func forward(t testing.TB) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "CONNECT" {
			out := r.Clone(r.Context())
			out.RequestURI = ""
			res, err := http.DefaultTransport.RoundTrip(out)
			if err != nil {
				w.WriteHeader(502)
				return
			}
			defer res.Body.Close()
			w.WriteHeader(res.StatusCode)
			io.Copy(w, res.Body)
			return
		}
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(502)
			return
		}
		defer up.Close()
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer down.Close()
		io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(up, down)
		io.Copy(down, up)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestFieldTimeouts is case 164: the timeouts of upstream_connection hold through
// forward proxies, too.
func TestFieldTimeouts(t *testing.T) {
	over := make(chan struct{})
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over })
	plain, secure := httptest.NewServer(never), httptest.NewTLSServer(never)
	proxy := forward(t)
	t.Cleanup(func() {
		close(over)
		plain.Close()
		secure.Close()
	})
	soon := policy{"upstream_connection", object{"read_timeout": 0.2}}
	through := policy{"http_proxy", object{"all_proxy": proxy.URL}}
	g, _ := startProducts(t,
		chained(t, "direct.test", plain.URL, soon), chained(t, "proxied.test", plain.URL, soon, through),
		chained(t, "tunnelled.test", secure.URL, soon, through),
		chained(t, "camel.test", plain.URL, soon, policy{"camel", object{"http_proxy": proxy.URL}}),
	)
	defer stop(t, g)
	for _, host := range []string{"direct.test", "proxied.test", "tunnelled.test", "camel.test"} {
		if status, body := call(t, g, "GET", host, "/", ""); status != 504 {
			t.Errorf("%s: %d %s", host, status, body)
		}
	}
}

// TestFieldRetry is case 165: further tries are for what failed before an answer,
// as nginx's proxy_next_upstream has them by default, and as many as the policy says.
func TestFieldRetry(t *testing.T) {
	var asked atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(c))
			switch {
			case err != nil:
			case r.URL.Path == "/503":
				asked.Add(1)
				io.WriteString(c, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
			case asked.Add(1) > 2:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
			c.Close()
		}
	}()
	url := "http://" + l.Addr().String()
	g, _ := startProducts(t,
		chained(t, "two.test", url, policy{"retry", object{"retries": 2}}), chained(t, "one.test", url, policy{"retry", object{"retries": 1}}),
		chained(t, "none.test", url),
	)
	defer stop(t, g)
	for _, c := range []struct {
		host, method, path string
		status             int
		asked              int64
	}{
		{"two.test", "GET", "/", 200, 3}, {"one.test", "GET", "/", 502, 2}, {"none.test", "GET", "/", 502, 1},
		{"two.test", "POST", "/", 502, 1}, {"two.test", "GET", "/503", 503, 1},
	} {
		asked.Store(0)
		if status, _ := call(t, g, c.method, c.host, c.path, ""); status != c.status || asked.Load() != c.asked {
			t.Errorf("%+v: %d after %d tries", c, status, asked.Load())
		}
	}
}

// TestFieldUnbuffered are cases 171 and 172: an upstream that refuses an
// expectation is relayed, without a 100, and a short chunked body arrives whole
// however it is framed.
func TestFieldUnbuffered(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(417) // and the body is not asked for
			return
		}
		io.Copy(w, r.Body)
	}))
	defer up.Close()
	g, _ := startProducts(t, chained(t, "u.test", up.URL, policy{"request_unbuffered", object{}}))
	defer stop(t, g)
	ask := func(text string) *bufio.Reader {
		c, err := net.Dial("tcp", g.Products()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, text)
		return bufio.NewReader(c)
	}
	status := func(r *bufio.Reader) string {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	if s := status(ask("POST /refused HTTP/1.1\r\nHost: u.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")); s != "HTTP/1.1 417 Expectation Failed" {
		t.Error(s)
	}
	if s := status(ask("POST / HTTP/1.1\r\nHost: u.test\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")); s != "HTTP/1.1 100 Continue" {
		t.Error(s)
	}
	res, err := http.ReadResponse(ask("POST / HTTP/1.1\r\nHost: u.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "0123456789" || err != nil {
		t.Errorf("%d %q, %v", res.StatusCode, b, err)
	}
}

// TestFieldLargeAnswer is case 175: an answer that comes through a forward proxy
// is not held in memory.
func TestFieldLargeAnswer(t *testing.T) {
	const size, piece = 256 << 20, 64 << 10
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		block := bytes.Repeat([]byte("x"), piece)
		for range size / piece {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	up := httptest.NewServer(handler)
	defer up.Close()
	proxy := forward(t)
	g, _ := startProducts(t, chained(t, "large.test", up.URL, policy{"http_proxy", object{"http_proxy": proxy.URL}}))
	defer stop(t, g)
	r, err := http.NewRequest("GET", "http://"+g.Products()[0].String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "large.test"
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := io.CopyN(io.Discard, res.Body, size/2); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	if now.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("%d bytes more are in use half-way", now.HeapAlloc-before.HeapAlloc)
	}
	if n, err := io.Copy(io.Discard, res.Body); n != size/2 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
