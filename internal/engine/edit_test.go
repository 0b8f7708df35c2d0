package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/plugin"
)

// editConf makes the test plugin change what passes.
type editConf struct {
	Set     map[string]string `json:"set" doc:"Request headers."`
	Remove  []string          `json:"remove" doc:"Request headers."`
	Body    *string           `json:"body" doc:"Request body."`
	MaxBody int64             `json:"max_body" schema:"default=0" doc:"Limit of the request body."`
	Reply   int               `json:"reply" schema:"default=0" doc:"Status to answer with, without a body."`
	Pause   int               `json:"pause" schema:"default=0" doc:"Milliseconds to wait; 499 if nobody waits."`
	Header  map[string]string `json:"header" doc:"Response headers."`
	Status  int               `json:"status" schema:"default=0" doc:"Response status."`
	Whole   string            `json:"whole" doc:"Response body, of known length."`
	Encode  bool              `json:"encode" schema:"default=false" doc:"Put the response body in brackets."`
}

// pausing are the beginnings of pauses, pauses the ends.
var pausing, pauses = make(chan bool, 1), make(chan bool, 1)

var editPlugin = plugin.Define(
	plugin.Meta{Name: "edit", Priority: 2, Doc: "Test plugin."},
	func(c *editConf, _ plugin.Env) (plugin.Phases, error) {
		reply := &plugin.Reply{Status: c.Reply}
		p := plugin.Phases{
			Rewrite: func(x *plugin.Ctx) *plugin.Reply {
				for k, v := range c.Set {
					x.SetHeader(k, v)
				}
				for _, k := range c.Remove {
					x.DelHeader(k)
				}
				if c.Body != nil {
					x.To.Body = []byte(*c.Body)
				}
				x.MaxBody = c.MaxBody
				if c.Pause > 0 {
					pausing <- true
					waited := x.Pause(time.Duration(c.Pause) * time.Millisecond)
					pauses <- waited
					if !waited {
						return plugin.Text(499, "")
					}
				}
				if c.Reply != 0 {
					return reply
				}
				return nil
			},
			Header: func(x *plugin.Ctx) {
				for k, v := range c.Header {
					x.Response.Header.Set(k, v)
				}
				if c.Status != 0 {
					x.Response.Status = c.Status
				}
			},
		}
		if c.Whole != "" {
			p.Body = func(*plugin.Ctx) plugin.BodyFilter { return &whole{text: c.Whole} }
		}
		if c.Encode {
			p.Encode = func(x *plugin.Ctx) plugin.BodyFilter {
				x.Response.Header.Set("X-Length", fmt.Sprint(x.Response.Length))
				return new(brackets)
			}
		}
		return p, nil
	},
)

// whole replaces a body.
type whole struct {
	text string
	sent bool
}

func (w *whole) Size(int64) int64 { return int64(len(w.text)) }

func (w *whole) Write([]byte, bool) []byte {
	if w.sent {
		return nil
	}
	w.sent = true
	return []byte(w.text)
}

type brackets struct{ open bool }

// closed counts the brackets that are closed.
var closed atomic.Int64

func (b *brackets) Close() { closed.Add(1) }

func (b *brackets) Write(p []byte, last bool) []byte {
	var out []byte
	if !b.open {
		out, b.open = append(out, '['), true
	}
	if out = append(out, p...); last {
		out = append(out, ']')
	}
	return out
}

func TestPluginHeadersWin(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put(
		"routes/set", route("/set", up.addr, `,"plugins":{"edit":{"set":{
			"X-Real-IP":"5.5.5.5","x-forwarded-for":"22.22.22.22","X-Forwarded-Proto":"https","X-Forwarded-Host":"b.test",
			"X-Forwarded-Port":"9","X-Other":"1\r\nX-Evil: 1","Content-Length":"5","Host":"c.test"}}}`),
		"routes/remove", route("/remove", up.addr, `,"plugins":{"edit":{"remove":["X-Forwarded-Host","X-Forwarded-For"]}}`),
	)
	_, body := g.get("/set", "X-Real-IP: 1.1.1.1", "X-Forwarded-For: 11.11.11.11", "X-Forwarded-Proto: ftp")
	for _, want := range []string{
		"Host: a.test\r\n", "X-Real-IP: 5.5.5.5\r\n", "X-Forwarded-For: 22.22.22.22, 127.0.0.1\r\n", "X-Forwarded-Proto: https\r\n",
		"X-Forwarded-Host: b.test\r\n", "X-Forwarded-Port: 9\r\n", "X-Other: 1%0D%0AX-Evil: 1\r\n",
	} {
		name, _, _ := strings.Cut(want, ":")
		if !strings.Contains(body, want) || strings.Count(strings.ToLower(body), "\n"+strings.ToLower(name)+":") != 1 {
			t.Errorf("want %q once in\n%s", want, body)
		}
	}
	if strings.Contains(body, "Content-Length") || strings.Contains(body, "c.test") {
		t.Errorf("upstream saw\n%s", body)
	}
	_, body = g.get("/remove", "X-Forwarded-For: 11.11.11.11", "X-Forwarded-Host: b.test")
	if strings.Contains(body, "X-Forwarded-Host") || !strings.Contains(body, "X-Forwarded-For: 127.0.0.1\r\n") {
		t.Errorf("upstream saw\n%s", body)
	}
}

func TestIdentify(t *testing.T) {
	up := echo(t)
	only := func(text string) func(netip.Addr) bool {
		return func(a netip.Addr) bool { return strings.Contains(text, a.String()) }
	}
	for _, c := range []struct {
		name, head string
		change     func(*Config)
		want       []string
	}{
		{
			"trusted", "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: grpc\r\nX_Forwarded_Host: no\r\nX-Forwarded-Port: 81\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=1\r\n",
			func(c *Config) { c.Trusted = only("127.0.0.1") },
			[]string{"X-Forwarded-Proto: http, grpc", "X-Forwarded-Host: a.test", "X-Forwarded-Port: 81", "X-Forwarded-For: 1.1.1.1, 127.0.0.1", "Forwarded: for=1"},
		},
		{
			"nominated", "Connection: x-forwarded-proto\r\nX-Forwarded-Proto: grpc\r\n",
			func(c *Config) { c.Trusted = only("127.0.0.1") },
			[]string{"X-Forwarded-Proto: http"},
		},
		{
			"not trusted", "X-Forwarded-Proto: grpc\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=1\r\n",
			func(c *Config) { c.Trusted = only("9.9.9.9") },
			[]string{"X-Forwarded-Proto: http", "X-Forwarded-For: 127.0.0.1", "!Forwarded: for=1"},
		},
		{
			"real IP", "X-Real-IP: 1.1.1.1:80\r\nX-Real-IP: 2.2.2.2\r\n",
			func(c *Config) { c.RealIP = &RealIP{Header: "X-Real-IP", From: only("127.0.0.1")} },
			[]string{"X-Real-IP: 1.1.1.1", "X-Forwarded-For: 1.1.1.1"},
		},
		{
			"real IP of another", "X-Real-IP: 1.1.1.1\r\n",
			func(c *Config) { c.RealIP = &RealIP{Header: "X-Real-IP", From: only("9.9.9.9")} },
			[]string{"X-Real-IP: 127.0.0.1"},
		},
		{
			"last of a chain", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2, 127.0.0.1\r\n",
			func(c *Config) { c.RealIP = &RealIP{Header: "X-Forwarded-For", From: only("127.0.0.1")} },
			[]string{"X-Real-IP: 127.0.0.1", "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1, 127.0.0.1"},
		},
		{
			"recursive", "X-Forwarded-For: 1.1.1.1, 3.3.3.3\r\nX-Forwarded-For: 127.0.0.1, 127.0.0.1\r\n",
			func(c *Config) {
				c.RealIP = &RealIP{Header: "x-forwarded-for", Recursive: true, From: only("127.0.0.1 3.3.3.3")}
			},
			[]string{"X-Real-IP: 1.1.1.1"},
		},
		{
			"as far as it can be read", "X-Forwarded-For: 1.1.1.1, unknown, 127.0.0.1\r\n",
			func(c *Config) {
				c.RealIP = &RealIP{Header: "X-Forwarded-For", Recursive: true, From: only("127.0.0.1")}
			},
			[]string{"X-Real-IP: 127.0.0.1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, c.change)
			g.put("routes/1", route("/*", up.addr, ""))
			conn := g.dial()
			for range 2 { // the second is not the first's
				conn.send("GET / HTTP/1.1\r\nHost: a.test\r\n%s\r\n", c.head)
				_, body := conn.answer("GET")
				for _, want := range c.want {
					name, no := strings.CutPrefix(want, "!")
					if strings.Contains(body, "\n"+name+"\r\n") == no {
						t.Errorf("want %q in\n%s", want, body)
					}
				}
			}
			conn.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
			if _, body := conn.answer("GET"); !strings.Contains(body, "X-Real-IP: 127.0.0.1\r\n") {
				t.Errorf("the client of an earlier request is remembered:\n%s", body)
			}
		})
	}
}

func TestPages(t *testing.T) {
	g := start(t, nil)
	for _, c := range []struct {
		status      int
		body, media string
	}{
		{200, "", ""},
		{301, "<title>301 Moved Permanently</title>", htmlType},
		{302, "<title>302 Found</title>", htmlType},
		{308, "<title>308 Permanent Redirect</title>", htmlType},
		{401, "<title>401 Authorization Required</title>", htmlType},
		{405, "<title>405 Not Allowed</title>", htmlType},
		{418, "", ""},
		{429, "<title>429 Too Many Requests</title>", htmlType},
	} {
		g.put("routes/1", route("/*", "127.0.0.1:1", fmt.Sprintf(`,"plugins":{"edit":{"reply":%d}}`, c.status)))
		r, body := g.get("/")
		if r.StatusCode != c.status || !strings.Contains(body, c.body) || (c.body == "") != (body == "") || r.Header.Get("Content-Type") != c.media {
			t.Errorf("%d: %d %q, %v", c.status, r.StatusCode, body, r.Header)
		}
	}
}

// says answers every request with the same text.
func says(t *testing.T, text string) *origin {
	return serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			if _, err := o.head(r); err != nil {
				return
			}
			io.WriteString(c, text)
		}
	})
}

func TestSizedFilters(t *testing.T) {
	const upstreamSays = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
	up := says(t, upstreamSays)
	none := says(t, "HTTP/1.1 204 No Content\r\n\r\n")
	g := start(t, nil)
	g.put(
		"routes/whole", route("/whole", up.addr, `,"plugins":{"edit":{"whole":"hello","header":{"Content-Length":"99","Transfer-Encoding":"chunked","X-Y":"1"}}}`),
		"routes/upper", route("/upper", up.addr, `,"plugins":{"edit":{"whole":"hello"},"probe":{"upper":true}}`),
		"routes/encoded", route("/encoded", up.addr, `,"plugins":{"edit":{"whole":"hello","encode":true}}`),
		"routes/status", route("/status", none.addr, `,"plugins":{"edit":{"whole":"hello","status":200}}`),
		"routes/nobody", route("/nobody", up.addr, `,"plugins":{"edit":{"status":204}}`),
	)
	for _, c := range []struct {
		method, path, body string
		status             int
		length             int64
	}{
		{"GET", "/whole", "hello", 200, 5},
		{"HEAD", "/whole", "", 200, -1},
		{"GET", "/upper", "HELLO", 200, -1}, // as nginx, though all of it is there
		{"GET", "/encoded", "[hello]", 200, -1},
		{"GET", "/status", "hello", 200, 5},
		{"GET", "/nobody", "", 204, 0},
	} {
		conn := g.dial()
		for range 2 {
			conn.send("%s %s HTTP/1.1\r\nHost: a.test\r\n\r\n", c.method, c.path)
			r, body := conn.answer(c.method)
			if body != c.body || r.StatusCode != c.status || r.ContentLength != c.length {
				t.Errorf("%s %s: %d %q, length %d", c.method, c.path, r.StatusCode, body, r.ContentLength)
			}
			if n := r.Header.Get("X-Length"); c.path == "/encoded" && n != "5" {
				t.Errorf("the encoder was told of %s bytes", n)
			}
		}
	}
	// The answer comes before the end of the exchange.
	for closed.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
}

func TestOwnBody(t *testing.T) {
	var got string
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			h, err := o.head(r)
			if err != nil {
				return
			}
			_, length, _ := strings.Cut(h, "Content-Length: ")
			n := 0
			fmt.Sscanf(length, "%d", &n)
			b := make([]byte, n)
			io.ReadFull(r, b)
			got = string(b)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	g := start(t, nil)
	g.put(
		"routes/1", route("/body", up.addr, `,"plugins":{"edit":{"body":"mine"}}`),
		"routes/2", route("/none", up.addr, `,"plugins":{"edit":{"body":""}}`),
	)
	conn := g.dial()
	for _, c := range []struct{ request, want string }{
		{"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\ntheirs", "mine"},
		{"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ntheirs\r\n0\r\n\r\n", "mine"},
		{"GET /body HTTP/1.1\r\nHost: a\r\n\r\n", "mine"},
		{"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\ntheirs", ""},
	} {
		conn.send("%s", c.request)
		if r, _ := conn.answer("POST"); r.StatusCode != 200 || got != c.want {
			t.Errorf("%q: %d, upstream got %q", c.request, r.StatusCode, got)
		}
	}
}

func TestPluginMaxBody(t *testing.T) {
	up := echo(t)
	g := start(t, func(c *Config) { c.MaxBody = 10 })
	g.put(
		"routes/1", route("/less", up.addr, `,"plugins":{"edit":{"max_body":3}}`),
		"routes/2", route("/none", up.addr, `,"plugins":{"edit":{"max_body":-1}}`),
	)
	chunked := func(n int) string {
		return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("x", n))
	}
	for _, c := range []struct {
		path string
		n    int
		want int
	}{
		{"/less", 3, 200},
		{"/less", 4, 413},
		{"/none", 11, 200},
	} {
		conn := g.dial()
		conn.send("POST %s HTTP/1.1\r\nHost: a\r\n%s", c.path, chunked(c.n))
		if r, _ := conn.answer("POST"); r.StatusCode != c.want {
			t.Errorf("%s %d: %d, want %d", c.path, c.n, r.StatusCode, c.want)
		}
	}
}

func TestPause(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put(
		"routes/1", route("/short", up.addr, `,"plugins":{"edit":{"pause":1}}`),
		"routes/2", route("/long", up.addr, `,"plugins":{"edit":{"pause":3600000}}`),
	)
	if r, _ := g.get("/short"); r.StatusCode != 200 || !<-pausing || !<-pauses {
		t.Errorf("%d", r.StatusCode)
	}
	t.Run("client leaves", func(t *testing.T) {
		conn := g.dial()
		conn.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
		<-pausing
		conn.Close()
		if <-pauses {
			t.Error("an hour has passed")
		}
	})
	t.Run("gateway stops", func(t *testing.T) {
		g := start(t, nil)
		g.put("routes/2", route("/long", up.addr, `,"plugins":{"edit":{"pause":3600000}}`))
		conn := g.dial()
		conn.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
		<-pausing
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		g.Shutdown(ended, g.listener)
		if <-pauses {
			t.Error("an hour has passed")
		}
	})
}
