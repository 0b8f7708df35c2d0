package proxymirror

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A server is a mirror that remembers what it gets.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	got   []string
	heads []http.Header
}

func newServer(t *testing.T, start func(*httptest.Server)) *server {
	s := new(server)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		line := fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Host, b)
		if err != nil {
			line += " cut"
		}
		s.mu.Lock()
		s.got, s.heads = append(s.got, line), append(s.heads, r.Header)
		s.mu.Unlock()
		w.WriteHeader(500)
	}))
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func plain(s *httptest.Server) { s.Start() }

// wait returns the first n requests.
func (s *server) wait(t *testing.T, n int) []string {
	t.Helper()
	for range 2000 {
		s.mu.Lock()
		got := append([]string(nil), s.got...)
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d requests came, want %d", len(s.got), n)
	return nil
}

// A gateway compiles configurations as one that runs does.
type gateway struct {
	t      testing.TB
	keeper plugin.Keeper
	env    plugin.Env
}

func newGateway(t testing.TB) *gateway {
	g := &gateway{t: t, env: plugintest.Env(time.Now)}
	g.env.Keep = g.keeper.Uses()
	t.Cleanup(g.keeper.Close)
	return g
}

func (g *gateway) compile(conf string) plugin.Phases {
	g.t.Helper()
	ph, err := Plugin.Compile([]byte(conf), g.env)
	if err != nil {
		g.t.Fatal(err)
	}
	return ph
}

// pass takes a request through the plugin; body is what goes upstream of a body
// of that length, answered whether the upstream answered.
func pass(ph plugin.Phases, c *plugin.Ctx, length int64, body string, answered bool) {
	c.Request.Length = length
	ph.Rewrite(c)
	ph.BeforeProxy(c)
	ph.BeforeProxy(c) // another try
	for _, tap := range c.Taps() {
		half := len(body) / 2
		tap.See([]byte(body[:half]))
		tap.See([]byte(body[half:]))
	}
	if answered {
		c.Sent.Source = plugin.FromUpstream
	}
	ph.Log(c)
}

func TestTarget(t *testing.T) {
	s, g := newServer(t, plain), newGateway(t)
	for i, c := range []struct {
		more, target string
		change       func(*plugin.Ctx)
		want         string
	}{
		{"", "/hello?a=%20b", nil, "GET /hello?a=%20b example.com "},
		{`,"path":"/a"`, "/hello", nil, "GET /a example.com "},
		{`,"path":"/a"`, "/hello?x=1", nil, "GET /a?x=1 example.com "},
		{`,"path":"/a","path_concat_mode":"prefix"`, "/hello?x=1", nil, "GET /a/hello?x=1 example.com "},
		{"", "/nope", func(r *plugin.Ctx) { r.To.Target, r.To.Host, r.To.Method = "/hello", "other.test", "PUT" }, "PUT /hello other.test "},
		{"", "//double%2f?a", nil, "GET //double%2f?a example.com "},
	} {
		ph := g.compile(fmt.Sprintf(`{"host":%q%s}`, s.URL, c.more))
		ctx := plugintest.NewCtx(c.target)
		if c.change != nil {
			c.change(ctx)
		}
		before := len(s.got)
		pass(ph, ctx, 0, "", true)
		if got := s.wait(t, before+1)[before]; got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
}

// TestBefore: the copy has the target as it was when the plugin ran, and the
// headers as they are in the end.
func TestBefore(t *testing.T) {
	s, g := newServer(t, plain), newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"host":%q}`, s.URL))
	c := plugintest.NewCtx("/a", [2]string{"api-key", "hello"}, [2]string{"Two", "1"}, [2]string{"Two", "2"}, [2]string{"Secret", "s"})
	c.Request.Header.Receive("X-Forwarded-For", "1.2.3.4")
	c.Request.Header.Receive("Connection", "close")
	c.Request.Header.Receive("X-Real-IP", "9.9.9.9")
	ph.Rewrite(c)
	c.To.Target = "/b"
	c.SetHeader("Added", "yes")
	c.DelHeader("Secret")
	for i := range c.Request.Header.Fields() {
		if f := &c.Request.Header.Fields()[i]; f.Known != wire.KnownNone {
			f.Dropped = true // by the gateway, which proxies
		}
	}
	c.Consumer = &plugin.Consumer{Name: "jack", CredentialID: "cred"}
	ph.BeforeProxy(c)
	ph.Log(c)
	if got := s.wait(t, 1)[0]; got != "GET /a example.com " {
		t.Error(got)
	}
	want := http.Header{
		"Api-Key": {"hello"}, "Two": {"1", "2"}, "Added": {"yes"}, "X-Forwarded-For": {"1.2.3.4"},
		"X-Consumer-Username": {"jack"}, "X-Credential-Identifier": {"cred"},
	}
	if got, want := fmt.Sprint(s.heads[0]), fmt.Sprint(want); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBody(t *testing.T) {
	s, g := newServer(t, plain), newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"host":%q}`, s.URL))
	for i, c := range []struct {
		length   int64
		body     string
		answered bool
		own      []byte
		want     string
	}{
		{5, "hello", true, nil, "GET / example.com hello"},
		{wire.Chunked, "hello", true, nil, "GET / example.com hello"},
		{5, "hello", false, nil, "GET / example.com hello"},
		{5, "hel", false, nil, "GET / example.com hel cut"},
		{wire.Chunked, "hel", false, nil, "GET / example.com hel cut"},
		{5, "other body", true, []byte("other body"), "GET / example.com other body"},
	} {
		ctx := plugintest.NewCtx("/")
		ctx.To.Body = c.own
		pass(ph, ctx, c.length, c.body, c.answered)
		if got := s.wait(t, i+1)[i]; got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
	if got := s.heads[0].Get("Content-Length"); got != "5" {
		t.Errorf("length %q", got)
	}
}

// TestSlow: a mirror that does not take the body costs a bounded amount of
// memory and no time.
func TestSlow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"host":"http://%s"}`, l.Addr()))
	c := plugintest.NewCtx("/")
	c.Request.Length = 1 << 40
	ph.Rewrite(c)
	ph.BeforeProxy(c)
	piece := bytes.Repeat([]byte("x"), 64<<10)
	q := c.Taps()[0].(*queue)
	for range 1000 {
		q.See(piece)
		q.mu.Lock()
		if len(q.buf) > 2*maxQueue {
			t.Fatalf("%d bytes are waiting", len(q.buf))
		}
		q.mu.Unlock()
	}
	ph.Log(c)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != errSlow {
		t.Error(q.err)
	}
}

// TestDown: a mirror that is not there, or silent, does not matter to anybody.
func TestDown(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	g := newGateway(t)
	for _, host := range []string{silent.Addr().String(), closed.Addr().String(), "not-found.invalid"} {
		ph := g.compile(fmt.Sprintf(`{"host":"http://%s"}`, host))
		for range 20 {
			pass(ph, plugintest.NewCtx("/"), 3, "abc", true)
		}
	}
}

// TestMany: no more than maxSending copies are on their way.
func TestMany(t *testing.T) {
	s := newSender(plugintest.Env(time.Now).Log, timeouts{time.Second, time.Second, time.Second})
	defer s.Close()
	s.now.Store(maxSending)
	x := &sending{body: newQueue()}
	s.send(nil, x, head{})
	if s.lost.Load() != 1 || s.now.Load() != maxSending || !x.body.closed {
		t.Errorf("lost %d, %d on their way", s.lost.Load(), s.now.Load())
	}
	s.now.Store(0)
}

func TestSample(t *testing.T) {
	s, g := newServer(t, plain), newGateway(t)
	next := 0.0
	g.env.Rand = func() float64 { next += 0.1; return next - 0.1 }
	ph := g.compile(fmt.Sprintf(`{"host":%q,"sample_ratio":0.5}`, s.URL))
	for range 10 {
		pass(ph, plugintest.NewCtx("/"), 0, "", true)
	}
	g.keeper.Close()
	if len(s.got) != 5 {
		t.Errorf("%d copies of 10 requests", len(s.got))
	}
}

// TestProtocols: HTTPS without a check of the certificate, gRPC over HTTP/2.
func TestProtocols(t *testing.T) {
	for scheme, start := range map[string]func(*httptest.Server){
		"https": (*httptest.Server).StartTLS,
		"grpcs": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.TLS = &tls.Config{NextProtos: []string{"h2"}}
			s.StartTLS()
		},
		"grpc": func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			s, g := newServer(t, start), newGateway(t)
			host := s.URL[strings.Index(s.URL, "://"):]
			ph := g.compile(fmt.Sprintf(`{"host":"%s%s"}`, scheme, host))
			pass(ph, plugintest.NewCtx("/pkg.Service/Method"), 5, "hello", true)
			if got := s.wait(t, 1)[0]; got != "GET /pkg.Service/Method example.com hello" {
				t.Error(got)
			}
			g.keeper.Close()
		})
	}
}

// TestRefusedRequest: a request that does not go upstream is not copied.
func TestRefusedRequest(t *testing.T) {
	s, g := newServer(t, plain), newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"host":%q}`, s.URL))
	c := plugintest.NewCtx("/")
	c.Request.Length = 3
	ph.Rewrite(c)
	ph.Log(c)
	g.keeper.Close()
	if len(s.got) != 0 {
		t.Error(s.got)
	}
}

func TestTimeouts(t *testing.T) {
	for raw, want := range map[string]string{
		``: "1m0s 1m0s 1m0s", `{}`: "1m0s 1m0s 1m0s",
		`{"timeout":{"connect":"2000ms","read":"3s","send":4}}`: "2s 3s 4s",
		`{"timeout":{"connect":"1m","read":"1h"}}`:              "1m0s 1h0m0s 1m0s",
		`{"timeout":{"connect":"fast"}}`:                        `plugin_attr.proxy-mirror: timeout: "fast" is not a time`,
		`{"timeout":{"connect":"-1s"}}`:                         `plugin_attr.proxy-mirror: timeout: "-1s" is not a time`,
	} {
		var doc json.RawMessage
		if raw != "" {
			doc = json.RawMessage(raw)
		}
		got, err := readTimeouts(doc)
		text := fmt.Sprint(got.connect, got.read, got.send)
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: got %s, want %s", raw, text, want)
		}
	}
}

func TestInvalid(t *testing.T) {
	const pattern = `property "host" validation failed: failed to match pattern`
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no host", Config: `{}`, Invalid: `property "host" is required`},
		{Name: "scheme", Config: `{"host":"ftp://127.0.0.1:1999"}`, Invalid: pattern},
		{Name: "port", Config: `{"host":"http://127.0.0.1::1999"}`, Invalid: pattern},
		{Name: "no scheme", Config: `{"host":"127.0.0.1:1999"}`, Invalid: pattern},
		{Name: "path in host", Config: `{"host":"http://127.0.0.1:1999/invalid_uri"}`, Invalid: pattern},
		{Name: "path", Config: `{"host":"http://a","path":"a"}`, Invalid: `property "path" validation failed: failed to match pattern`},
		{Name: "query in path", Config: `{"host":"http://a","path":"/a?a=c"}`, Invalid: `property "path" validation failed: failed to match pattern`},
		{Name: "ratio", Config: `{"host":"http://a","sample_ratio":10}`, Invalid: `property "sample_ratio" validation failed: expected 10 to be at most 1`},
	})
	for _, host := range []string{"http://127.0.0.1", "http://ab.com", "http://[::1]", "http://[::1]:202", "grpcs://a:1"} {
		newGateway(t).compile(fmt.Sprintf(`{"host":%q}`, host))
	}
}
