package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/wire"
)

func TestErrorAnswers(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	g := start(t, nil)
	g.put(
		"routes/dead", route("/dead", dead.Addr().String(), ""),
		"routes/noservice", `{"uri":"/noservice","service_id":"gone"}`,
		"routes/noconfig", route("/noconfig", dead.Addr().String(), `,"plugin_config_id":"gone"`),
		"routes/noupstream", `{"uri":"/noupstream","upstream_id":"gone"}`,
		"routes/nothing", `{"uri":"/nothing","plugins":{}}`,
		"routes/nonodes", `{"uri":"/nonodes","upstream":{"nodes":{},"type":"roundrobin"}}`,
		"routes/unknown", route("/unknown", dead.Addr().String(), `,"plugins":{"no-such":{}}`),
		"routes/lua", route("/lua", dead.Addr().String(), `,"filter_func":"function(vars) return true end"`),
		"routes/tls", `{"uri":"/tls","upstream":{"scheme":"quic","nodes":{"127.0.0.1:1":1},"type":"roundrobin"}}`,
	)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/none", 404, "{\"error_msg\":\"404 Route Not Found\"}\n"},
		{"/dead", 502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>Weir</center>\r\n</body>\r\n</html>\r\n"},
		{"/noservice", 404, "404 Not Found"},
		{"/noconfig", 503, "503 Service Temporarily Unavailable"},
		{"/noupstream", 502, "502 Bad Gateway"},
		{"/nothing", 503, "503 Service Temporarily Unavailable"},
		{"/nonodes", 503, "503 Service Temporarily Unavailable"},
		{"/unknown", 503, "503"},
		{"/lua", 503, "503"},
		{"/tls", 503, "503"},
		{"/../x", 400, "400 Bad Request"},
		{"/%zz", 400, "400 Bad Request"},
	} {
		t.Run(c.path, func(t *testing.T) {
			r, body := g.get(c.path)
			if r.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%d %q, want %d %q", r.StatusCode, body, c.status, c.body)
			}
			if r.Header.Get("Server") != "Weir" || r.Header.Get("Date") == "" || len(r.Header["Server"]) != 1 {
				t.Errorf("headers %v", r.Header)
			}
		})
	}
}

// What reaches the upstream: cases 132, 134, 136 of the field reports and
// apisix-runtime.md §9.
func TestForwardedHead(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put("routes/1", route("/*", up.addr, ""))
	_, port, _ := net.SplitHostPort(g.addr)
	for _, c := range []struct{ name, head, want string }{
		{
			"plain", "GET /a?b=c HTTP/1.1\r\nHost: a.test:81\r\nX-One: 1\r\nx-two:2\r\n\r\n",
			"GET /a?b=c HTTP/1.1\r\nHost: a.test:81\r\nX-One: 1\r\nx-two:2\r\n" +
				"X-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test:81\r\nX-Forwarded-Port: 81\r\nX-Real-IP: 127.0.0.1\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n",
		},
		{
			"spoofed and repeated", "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2\r\n" +
				"X-Forwarded-Proto: https\r\nX-Forwarded-Proto: ftp\r\nX_Forwarded_For: 9.9.9.9\r\nForwarded: for=1\r\nX-Real-IP: 3.3.3.3\r\nX_Other: kept\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nX_Other: kept\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\nX-Forwarded-Port: " + port +
				"\r\nX-Real-IP: 127.0.0.1\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1\r\n\r\n",
		},
		{
			"hop-by-hop", "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, X-Mine, x-real-ip\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: x\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\nX-Forwarded-Port: " + port + "\r\nX-Real-IP: 127.0.0.1\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n",
		},
		{
			"escapes are kept", "GET /t/a_%2F_b%20c?x=%2F HTTP/1.1\r\nHost: a.test\r\n\r\n",
			"GET /t/a_%2F_b%20c?x=%2F HTTP/1.1\r\n",
		},
		{
			"resolved path is forwarded resolved", "GET /x/../y//z?q HTTP/1.1\r\nHost: a.test\r\n\r\n",
			"GET /y/z?q HTTP/1.1\r\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := g.dial()
			conn.send("%s", c.head)
			if _, body := conn.answer("GET"); !strings.HasPrefix(body, c.want) {
				t.Errorf("upstream saw\n%s\nwant\n%s", body, c.want)
			}
		})
	}
}

func TestKeepAlive(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put("routes/1", route("/*", up.addr, ""))
	for _, c := range []struct {
		name, head string
		stays      bool
		connection string
	}{
		{"1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, ""},
		{"1.1 close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false, "close"},
		{"1.0", "GET / HTTP/1.0\r\n\r\n", false, "close"},
		{"1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, "keep-alive"},
		{"not found", "GET /../ HTTP/1.1\r\nHost: a\r\n\r\n", true, ""},
		{"refused with a small body", "POST /%zz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", true, ""},
		{"refused with a body that waits", "POST /%zz HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := g.dial()
			conn.send("%s", c.head)
			head, err := readHead(conn.r)
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), conn.r)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Header.Get("Connection"); c.connection != "" && !strings.Contains(head, "Connection: "+c.connection) {
				t.Errorf("Connection: %q, want %q", got, c.connection)
			}
			_, _ = io.ReadAll(r.Body)
			_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
			if err == nil {
				_, err = io.ReadFull(conn.Conn, make([]byte, 12))
			}
			if stays := err == nil; c.stays && !stays {
				t.Errorf("connection ended: %v", err)
			}
		})
	}
}

func TestContinue(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put("routes/1", route("/open", up.addr, ""), "routes/2", route("/closed", up.addr, `,"plugins":{"key-auth":{}}`))

	c := g.dial()
	c.send("POST /open HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if head, _ := readHead(c.r); head != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q", head)
	}
	c.send("hello")
	if r, body := c.answer("POST"); r.StatusCode != 200 || !strings.HasSuffix(body, "\r\n\r\nhello") || strings.Contains(body, "Expect") {
		t.Errorf("%d %q", r.StatusCode, body)
	}

	c = g.dial() // case 169: no 100 before authentication
	c.send("POST /closed HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if head, _ := readHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 401 ") {
		t.Errorf("%q", head)
	}
}

func TestHead(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			if _, err := o.head(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
		}
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	c := g.dial()
	for range 2 {
		c.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, body := c.answer("HEAD"); r.ContentLength != 1234 || body != "" {
			t.Errorf("%d %q", r.ContentLength, body)
		}
	}
	c.send("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := c.answer("HEAD"); r.StatusCode != 404 || r.ContentLength != 36 || body != "" {
		t.Errorf("%d %d %q", r.StatusCode, r.ContentLength, body)
	}
	if len(up.heads()) != 2 {
		t.Errorf("%d requests", len(up.heads()))
	}
}

func TestBodies(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			n, _ := io.Copy(&chunkWriter{c}, req.Body)
			fmt.Fprintf(c, "0\r\n\r\n")
			_ = n
		}
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""), "routes/2", route("/up", up.addr, `,"plugins":{"probe":{"upper":true}}`))
	for _, size := range []int{0, 1, 100, 4096, 65536, 65537, 1 << 20, 10 << 20} {
		for _, chunked := range []bool{false, true} {
			for _, path := range []string{"/a", "/up"} {
				t.Run(fmt.Sprint(path, size, chunked), func(t *testing.T) {
					want := strings.Repeat("abcdefghij", size/10+1)[:size]
					var body io.Reader = strings.NewReader(want)
					if chunked {
						body = struct{ io.Reader }{body}
					}
					r, err := http.Post("http://"+g.addr+path, "text/plain", body)
					if err != nil {
						t.Fatal(err)
					}
					defer r.Body.Close()
					got, err := io.ReadAll(r.Body)
					if path == "/up" {
						want = strings.ToUpper(want)
					}
					if err != nil || string(got) != want {
						t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
					}
				})
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

type chunkWriter struct{ w io.Writer }

func (c *chunkWriter) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(c.w, "%x\r\n%s\r\n", len(p), p)
	return len(p), err
}

// Answers come piece by piece as the upstream sends them.
func TestStreaming(t *testing.T) {
	next := make(chan string)
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		for s := range next {
			io.WriteString(c, s)
		}
	})
	g := start(t, nil)
	g.put("routes/1", route("/sse", up.addr, ""))
	c := g.dial()
	c.send("GET /sse HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		want := fmt.Sprintf("data: %d\n\n", i)
		next <- want
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q %v", got, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(r.Body); err != nil || len(rest) != 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// Case 167: the upstream answers while the client still sends.
func TestEarlyAnswer(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nenough")
		io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	c := g.dial()
	c.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		piece := make([]byte, 64<<10)
		for range 100_000_000 / len(piece) {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}()
	if r, body := c.answer("POST"); r.StatusCode != 403 || body != "enough" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	c.Close()
	<-sent
}

func TestLimits(t *testing.T) {
	up := echo(t)
	g := start(t, func(c *Config) { c.MaxBody = 10; c.Limits = wire.Limits{Head: 1000, Fields: 5} })
	g.put("routes/1", route("/a", up.addr, ""))
	for _, c := range []struct {
		name, raw string
		status    int
	}{
		{"body", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789", 200},
		{"length above", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n0123456789a", 413},
		{"chunked above", "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n", 413},
		{"fields", "GET /a HTTP/1.1\r\nHost: a\r\n1: 1\r\n2: 2\r\n3: 3\r\n4: 4\r\n5: 5\r\n\r\n", 431},
		{"head", "GET /a HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 1000) + "\r\n\r\n", 431},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := g.dial()
			conn.send("%s", c.raw)
			if r, _ := conn.answer("POST"); r.StatusCode != c.status {
				t.Errorf("%d, want %d", r.StatusCode, c.status)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	short := func(c *Config) {
		c.KeepaliveTimeout, c.HeaderTimeout, c.BodyTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	}
	up := echo(t)
	g := start(t, short)
	g.put("routes/1", route("/a", up.addr, ""))

	t.Run("idle", func(t *testing.T) {
		c := g.dial()
		if b, err := io.ReadAll(c.Conn); err != nil || len(b) != 0 {
			t.Errorf("%q %v: an idle connection ends silently", b, err)
		}
	})
	t.Run("dripping head", func(t *testing.T) {
		c := g.dial()
		go func() {
			for range 100 {
				if _, err := c.Write([]byte("G")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if r, _ := c.answer("GET"); r.StatusCode != 408 {
			t.Errorf("%d", r.StatusCode)
		}
		c.Close()
	})
	t.Run("body", func(t *testing.T) {
		c := g.dial()
		c.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n012")
		if r, _ := c.answer("POST"); r.StatusCode != 408 {
			t.Errorf("%d", r.StatusCode)
		}
	})
	t.Run("upstream", func(t *testing.T) { // case 168: the next request is not hurt
		slow := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
			head, _ := o.head(r)
			if strings.Contains(head, "/slow") {
				o.head(r)
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		g.put("routes/2", route("/slow", slow.addr, `,"timeout":{"connect":1,"send":1,"read":0.05}`), "routes/3", route("/fast", slow.addr, ""))
		c := g.dial()
		c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := c.answer("GET"); r.StatusCode != 504 {
			t.Errorf("%d", r.StatusCode)
		}
		c.send("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := c.answer("GET"); r.StatusCode != 200 {
			t.Errorf("%d", r.StatusCode)
		}
	})
}

// A client that leaves while its upstream makes it wait ends the upstream call.
func TestClientLeaves(t *testing.T) {
	left := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		if _, err := r.ReadByte(); err != nil {
			close(left)
		}
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	c := g.dial()
	c.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	for len(up.heads()) == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	select {
	case <-left:
	case <-time.After(15 * time.Second):
		t.Fatal("the upstream call goes on")
	}
}

func TestPanicsLoseOneRequest(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put(
		"routes/1", route("/access", up.addr, `,"plugins":{"probe":{"panic":"access"}}`),
		"routes/2", route("/header", up.addr, `,"plugins":{"probe":{"panic":"header"}}`),
		"routes/3", route("/log", up.addr, `,"plugins":{"probe":{"panic":"log"}}`),
		"routes/4", route("/fine", up.addr, `,"plugins":{"probe":{}}`),
	)
	c := g.dial()
	logged := probed.Load()
	for _, s := range []struct {
		path   string
		status int
	}{{"/access", 500}, {"/header", 500}, {"/log", 200}, {"/fine", 200}} {
		c.send("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", s.path)
		if r, _ := c.answer("GET"); r.StatusCode != s.status {
			t.Errorf("%s: %d, want %d", s.path, r.StatusCode, s.status)
		}
	}
	if len(up.heads()) != 3 {
		t.Errorf("%d requests reached the upstream, want 3", len(up.heads()))
	}
	await(t, "the log phases of all four", func() bool { return probed.Load() == logged+4 })
}

func TestReplyRunsResponsePhases(t *testing.T) {
	g := start(t, nil)
	g.put("routes/1", `{"uri":"/a","plugins":{"probe":{"answer":418,"upper":true}}}`)
	before := probed.Load()
	r, body := g.get("/a")
	if r.StatusCode != 418 || body != "PROBE" || r.Header.Get("X-Probe") != "1" {
		t.Errorf("%d %q %v", r.StatusCode, body, r.Header)
	}
	for probed.Load() == before {
		time.Sleep(time.Millisecond)
	}
}

func TestShutdown(t *testing.T) {
	release := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		<-release
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	idle, busy := g.dial(), g.dial()
	busy.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	for len(up.heads()) == 0 {
		time.Sleep(time.Millisecond)
	}
	var done atomic.Bool
	finished := make(chan error)
	go func() {
		err := g.Shutdown(context.Background(), g.listener)
		done.Store(true)
		finished <- err
	}()
	if b, err := io.ReadAll(idle.Conn); err != nil || len(b) != 0 {
		t.Errorf("idle connection: %q %v", b, err)
	}
	if _, err := net.Dial("tcp", g.addr); err == nil {
		t.Error("still accepts")
	}
	if done.Load() {
		t.Error("shut down with a request under way")
	}
	close(release)
	r, body := busy.answer("GET")
	if r.StatusCode != 200 || body != "done" || !r.Close {
		t.Errorf("%d %q close=%v", r.StatusCode, body, r.Close)
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
}

// A client that sends its next request while Shutdown begins is answered, and told to
// go: its connection was closed with the request on its way. One that does not is not
// waited for.
func TestShutdownAwaitsTheNext(t *testing.T) {
	up := fixed(t, smallAnswer)
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	kept, quiet := g.dial(), g.dial()
	for _, c := range []*client{kept, quiet} {
		c.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := c.answer("GET"); r.StatusCode != 200 || r.Close {
			t.Fatalf("%d close=%v", r.StatusCode, r.Close)
		}
	}
	g.lastWait = time.Hour
	finished := make(chan error)
	go func() { finished <- g.Shutdown(context.Background(), g.listener) }()
	for !g.drain.Begun() {
		time.Sleep(time.Millisecond)
	}
	kept.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := kept.answer("GET"); r.StatusCode != 200 || !r.Close {
		t.Errorf("%d close=%v", r.StatusCode, r.Close)
	}
	g.each(func(m member) { m.(*conn).endWaiting() }) // the time is over
	if b, err := io.ReadAll(quiet.Conn); err != nil || len(b) != 0 {
		t.Errorf("quiet connection: %q %v", b, err)
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
}

func TestAccessLogSeesEveryRequest(t *testing.T) {
	up := echo(t)
	type seen struct {
		path, route, consumer string
		status                int
		body                  int64
		tries                 int
	}
	log := make(chan seen, 10)
	g := start(t, func(c *Config) {
		c.AccessLog = func(x *plugin.Ctx) {
			s := seen{path: strings.Clone(x.Path), status: x.Sent.Status, body: x.Sent.BodyBytes, tries: len(x.Sent.Tries)}
			if x.Route != nil {
				s.route = x.Route.ID
			}
			if x.Consumer != nil {
				s.consumer = x.Consumer.Name
			}
			log <- s
		}
	})
	g.put("routes/1", route("/a", up.addr, `,"plugins":{"key-auth":{}}`), "consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)
	_, body := g.get("/a", "apikey: k")
	g.get("/a")
	g.get("/none")
	for _, want := range []seen{
		{"/a", "1", "jack", 200, int64(len(body)), 1},
		{"/a", "1", "", 401, 41, 0},
		{"/none", "", "", 404, 36, 0},
	} {
		if got := <-log; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A response of HTTP/1.0 that the upstream cut must not pass for whole.
func TestCutUntilClose(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	c := g.dial()
	c.send("GET /a HTTP/1.0\r\nHost: a\r\n\r\n")
	_, err := io.ReadAll(c.r)
	if err == nil || errors.Is(err, io.EOF) {
		t.Error("the cut answer ended like a whole one")
	}
}

// A connection on which nothing comes ends after one wait, not one per protocol
// that it might speak.
func TestSilentConnection(t *testing.T) {
	g := start(t, func(c *Config) { c.HTTP2 = noHTTP2{} })
	c := new(silent)
	g.Engine.serve(c)
	if c.reads != 1 {
		t.Errorf("waited %d times", c.reads)
	}
}

// silent is a connection whose every read times out.
type silent struct {
	net.Conn
	reads int
}

func (s *silent) Read([]byte) (int, error)       { s.reads++; return 0, os.ErrDeadlineExceeded }
func (*silent) Close() error                     { return nil }
func (*silent) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (*silent) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (*silent) SetDeadline(time.Time) error      { return nil }
func (*silent) SetReadDeadline(time.Time) error  { return nil }
func (*silent) SetWriteDeadline(time.Time) error { return nil }

// noHTTP2 is a protocol that nobody speaks.
type noHTTP2 struct{}

func (noHTTP2) Serve(*Connection) {}
func (noHTTP2) Drain()            {}

// An answer without a date gets one, once.
func TestDate(t *testing.T) {
	g := start(t, nil)
	for head, want := range map[string]string{"": "", "Date: Mon, 30 Nov 2026 10:00:00 GMT\r\n": "Mon, 30 Nov 2026 10:00:00 GMT"} {
		up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
			if _, err := o.head(r); err == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head+"Content-Length: 0\r\n\r\n")
			}
		})
		g.put("routes/1", route("/a", up.addr, ""))
		r, _ := g.get("/a")
		if got := r.Header["Date"]; len(got) != 1 || want != "" && got[0] != want {
			t.Errorf("%q: %v", head, got)
		}
	}
}
