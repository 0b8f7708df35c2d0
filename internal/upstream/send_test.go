package upstream

import (
	"strconv"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/wire"
)

func TestHead(t *testing.T) {
	n := serve(t, echo)
	addr := "127.0.0.1:" + strconv.Itoa(n.Port)
	const client = "GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nConnection: close\r\nx-b:  2 \r\nExpect: 100-continue\r\n\r\n"
	for _, tc := range []struct {
		name string
		m    model.Upstream
		edit func(*Call)
		want string
	}{
		{"pass", model.Upstream{}, func(*Call) {},
			"GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"node", model.Upstream{PassHost: "node"}, func(*Call) {},
			"GET /p?q=1 HTTP/1.1\r\nHost: " + addr + "\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"domain", model.Upstream{PassHost: "domain"}, func(*Call) {},
			"GET /p?q=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"rewrite", model.Upstream{PassHost: "rewrite", Host: "r.example"}, func(*Call) {},
			"GET /p?q=1 HTTP/1.1\r\nHost: r.example\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"forced", model.Upstream{PassHost: "rewrite", Host: "r.example"}, func(c *Call) { c.ForceHost = "f.example" },
			"GET /p?q=1 HTTP/1.1\r\nHost: f.example\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"given host, target, method", model.Upstream{}, func(c *Call) { c.Host, c.Target, c.Method = "g.example", "/t", "DELETE" },
			"DELETE /t HTTP/1.1\r\nHost: g.example\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"no host", model.Upstream{}, func(c *Call) { c.Request.Host = "" },
			"GET /p?q=1 HTTP/1.1\r\nHost: " + addr + "\r\nX-A: 1\r\nx-b:  2 \r\n\r\n"},
		{"extra", model.Upstream{}, func(c *Call) { c.Extra = []byte("X-Real-IP: 1.2.3.4\r\nX-C: 3\r\n") },
			"GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nX-Real-IP: 1.2.3.4\r\nX-C: 3\r\n\r\n"},
		{"POST without a body", model.Upstream{}, func(c *Call) { c.Method = "POST" },
			"POST /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nContent-Length: 0\r\n\r\n"},
		{"empty body", model.Upstream{}, func(c *Call) { c.Body, c.Length = strings.NewReader(""), 0 },
			"GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nContent-Length: 0\r\n\r\n"},
		{"framing set by configuration", model.Upstream{}, func(c *Call) {
			h := &c.Request.Header
			h.Set("content-length", "7")
			h.Set("TRANSFER-ENCODING", "chunked")
			h.Set("Connection", "close")
			h.Set("Host", "x")
			h.Set("Expect", "x")
			h.Set("Keep-alive", "x")
			h.Set("Proxy-connection", "x")
			h.Set("X-Set", "kept")
		}, "GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nX-Set: kept\r\n\r\n"},
		{"body", model.Upstream{}, func(c *Call) { c.Body, c.Length = strings.NewReader("hello, world"), 5 },
			"GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nContent-Length: 5\r\n\r\nhello"},
		{"chunked body", model.Upstream{}, func(c *Call) { c.Body, c.Length = strings.NewReader("hello"), wire.Chunked },
			"GET /p?q=1 HTTP/1.1\r\nHost: client.example:8080\r\nX-A: 1\r\nx-b:  2 \r\nTransfer-Encoding: chunked\r\n\r\nhello"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.Nodes = nodes(n)
			u := compile(t, &tc.m, env(pools(t)))
			c := &Call{Request: request(t, client)}
			tc.edit(c)
			if got := mustDo(t, u, c); got != tc.want {
				t.Fatalf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestAuthority(t *testing.T) {
	for _, tc := range []struct {
		node model.Node
		host string
		addr string
	}{
		{model.Node{Host: "n.example", Port: 80}, "n.example", "n.example:80"},
		{model.Node{Host: "n.example"}, "n.example", "n.example:80"},
		{model.Node{Host: "n.example", Port: 8080}, "n.example:8080", "n.example:8080"},
		{model.Node{Host: "::1", Port: 80}, "[::1]", "[::1]:80"},
		{model.Node{Host: "::1", Port: 81}, "[::1]:81", "[::1]:81"},
	} {
		u := compile(t, &model.Upstream{PassHost: "node", Nodes: nodes(tc.node)}, env(pools(t)))
		if n := u.set.Load().nodes[0]; n.hosts[0] != tc.host || n.addr != tc.addr {
			t.Errorf("%+v: %s %s", tc.node, n.hosts, n.addr)
		}
	}
}

// All that is at hand leaves as one segment with the head.
func TestOneWrite(t *testing.T) {
	got := make(chan string, 1)
	n := serve(t, func(p *peer) {
		b := make([]byte, 64<<10)
		k, _ := p.Read(b)
		got <- string(b[:k])
		p.ok("")
	})
	u := up(t, n)
	c := call(t, "PUT")
	body := strings.Repeat("b", 2000)
	c.Body, c.Length = strings.NewReader(body), wire.Chunked
	mustDo(t, u, c)
	if s := <-got; !strings.HasSuffix(s, "\r\n\r\n7d0\r\n"+body+"\r\n0\r\n\r\n") {
		t.Fatalf("%q", s)
	}
}

func TestTrailers(t *testing.T) {
	got := make(chan string, 1)
	n := serve(t, func(p *peer) {
		p.skipHead()
		var b strings.Builder
		for !strings.HasSuffix(b.String(), "0\r\nX-Sum: 7\r\n\r\n") {
			c, err := p.r.ReadByte()
			if err != nil {
				break
			}
			b.WriteByte(c)
		}
		got <- b.String()
		p.say("HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n")
		p.gone()
	})
	u := up(t, n)
	c := call(t, "PUT")
	defer c.Finish()
	var h wire.Header
	h.Add("X-Sum", "7")
	c.Body, c.Length, c.Trailer = strings.NewReader("b"), wire.Chunked, func() *wire.Header { return &h }
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	if body, err := readAll(c); body != "ok" || err != nil {
		t.Fatal(body, err)
	}
	if s := <-got; s != "1\r\nb\r\n0\r\nX-Sum: 7\r\n\r\n" {
		t.Fatalf("%q", s)
	}
	if v, ok := c.Trailers().Get("X-T"); !ok || v != "1" {
		t.Fatal("no trailer")
	}
	if _, ok := c.Trailers().Get("X-U"); ok {
		t.Fatal("a trailer that was not announced")
	}
}
