package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/router"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A gateway is an engine on a free port, with its state.
type gateway struct {
	t     testing.TB
	state *snapshot.Applier
	addr  string
	*Engine
	revision int64
	listener net.Listener
}

// start runs a gateway whose clients wait at most a few seconds for anything.
func start(t testing.TB, change func(*Config)) *gateway {
	t.Helper()
	return startRouter(t, router.HostURI, change)
}

// startParameters is start with parameters in the routes' paths.
func startParameters(t testing.TB, change func(*Config)) *gateway {
	t.Helper()
	return startRouter(t, router.URIWithParameter, change)
}

// startWith is start with more plugins.
func startWith(t testing.TB, change func(*Config), more ...plugin.Spec) *gateway {
	t.Helper()
	return startRouter(t, router.HostURI, change, more...)
}

// byDefault is what config.yaml has on a request's way unless told otherwise.
func byDefault(c *Config) {
	c.RealIP = &RealIP{Header: "X-Real-IP", From: netip.Addr.IsLoopback}
}

func startRouter(t testing.TB, kind router.Kind, change func(*Config), more ...plugin.Spec) *gateway {
	t.Helper()
	return startPlugins(t, kind, change, append([]plugin.Spec{keyauth.Plugin, probePlugin, markPlugin, editPlugin}, more...))
}

// startPlugins runs a gateway that has these plugins and no others.
func startPlugins(t testing.TB, kind router.Kind, change func(*Config), all []plugin.Spec) *gateway {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pools := upstream.NewPools()
	state := snapshot.New(snapshot.Config{
		Router:   kind,
		Plugins:  all,
		Upstream: upstream.Env{Pools: pools, Log: log},
		Log:      log,
	})
	cfg := Config{
		State: state, Log: log, Server: "Weir",
		KeepaliveTimeout: 20 * time.Second, HeaderTimeout: 20 * time.Second,
		BodyTimeout: 20 * time.Second, SendTimeout: 20 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, state: state, addr: l.Addr().String(), Engine: New(cfg), listener: l}
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		g.Shutdown(ctx, l)
		if err := <-served; err != nil {
			t.Error(err)
		}
		state.Close()
		pools.Close()
	})
	return g
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	if os.Getenv("WEIR_TEST_LOG") != "" {
		fmt.Fprintf(os.Stderr, "%s: %s", w.t.Name(), p)
	}
	return len(p), nil
}

// put stores objects, given as path and JSON, as one delta.
func (g *gateway) put(objects ...string) {
	g.t.Helper()
	g.revision++
	d := model.Delta{Revision: g.revision}
	for i := 0; i < len(objects); i += 2 {
		d.Put = append(d.Put, model.Object{Key: keyOf(objects[i]), Created: g.revision, Modified: g.revision, Raw: []byte(objects[i+1])})
	}
	g.state.Apply(d)
	for path, err := range g.state.Current().Faults {
		g.t.Logf("fault: %s: %v", path, err)
	}
}

func (g *gateway) del(paths ...string) {
	g.revision++
	d := model.Delta{Revision: g.revision}
	for _, p := range paths {
		d.Del = append(d.Del, keyOf(p))
	}
	g.state.Apply(d)
}

func keyOf(path string) model.Key {
	dir, id, _ := strings.Cut(path, "/")
	if strings.Contains(id, "/credentials/") {
		return model.Key{Kind: model.KindCredential, ID: id}
	}
	for k := range model.KindCount {
		if k.Dir() == dir {
			return model.Key{Kind: k, ID: id}
		}
	}
	panic(path)
}

// route is a route to one node, with further members.
func route(uri, node, more string) string {
	return fmt.Sprintf(`{"uri":%q,"upstream":{"nodes":{%q:1},"type":"roundrobin"}%s}`, uri, node, more)
}

// A client is one raw connection.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (g *gateway) dial() *client { return dial(g.t, g.addr) }

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t, c, bufio.NewReaderSize(c, 128<<10)}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one response with its body; method is the request's.
func (c *client) answer(method string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatalf("answer cut after %d bytes: %v", len(b), err)
	}
	return r, string(b)
}

// get sends a GET on a new connection and returns the answer.
func (g *gateway) get(path string, headers ...string) (*http.Response, string) {
	g.t.Helper()
	c := g.dial()
	defer c.Close()
	c.send("GET %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n", path, lines(headers))
	return c.answer("GET")
}

func lines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\r\n") + "\r\n"
}

// An origin is a raw server whose connections a function serves.
type origin struct {
	addr string
	mu   sync.Mutex
	seen []string // heads
}

// serve starts an origin; f is called for each connection and closes it by
// returning.
func serve(t testing.TB, f func(o *origin, c net.Conn, r *bufio.Reader)) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(o, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return o
}

// head reads one request head as text and remembers it.
func (o *origin) head(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		l, err := r.ReadString('\n')
		b.WriteString(l)
		if err != nil {
			return b.String(), err
		}
		if l == "\r\n" {
			o.mu.Lock()
			o.seen = append(o.seen, b.String())
			o.mu.Unlock()
			return b.String(), nil
		}
	}
}

func (o *origin) heads() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

// echo answers every request with its own head and body as the body.
func echo(t testing.TB) *origin {
	return serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			var b strings.Builder
			req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(r, &b)))
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			o.mu.Lock()
			o.seen = append(o.seen, b.String())
			o.mu.Unlock()
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
		}
	})
}

// fixed answers every request head with a constant; nothing in it allocates
// per request.
func fixed(t testing.TB, answer string) *origin {
	text := []byte(answer)
	return serve(t, func(_ *origin, c net.Conn, r *bufio.Reader) {
		for {
			for {
				l, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(l) == 2 {
					break
				}
			}
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	})
}

const smallAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Length: 75\r\n\r\n" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789a"
