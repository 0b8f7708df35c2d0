package upstream

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/model"
)

// A forwarder is a forward proxy that joins whoever asks with the place asked
// for.
type forwarder struct {
	asked   atomic.Int32
	answer  string // instead of joining; empty: it joins
	early   string // sent along with the answer to CONNECT
	mu      sync.Mutex
	request string // the last one
}

func (f *forwarder) serve(p *peer) {
	head, err := p.head()
	if err != nil {
		return
	}
	f.asked.Add(1)
	f.mu.Lock()
	f.request = head
	f.mu.Unlock()
	if f.answer != "" {
		p.say("%s", f.answer)
		return
	}
	to := strings.Fields(head)[1]
	far, err := net.Dial("tcp", to)
	if err != nil {
		p.say("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer far.Close()
	p.say("HTTP/1.1 200 Connection established\r\n\r\n%s", f.early)
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(far, p.r)
		far.(*net.TCPConn).CloseWrite()
	})
	io.Copy(p.Conn, far)
	p.Conn.Close()
	wg.Wait()
}

func (f *forwarder) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.request
}

func hostPort(n model.Node) string { return fmt.Sprintf("%s:%d", n.Host, n.Port) }

func TestTunnelThroughProxy(t *testing.T) {
	mine, cert := issue(t, "n.example")
	var g greeter
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, g.greet, echo))
	other := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, g.greet, func(p *peer) {
		for {
			if _, _, err := p.request(); err != nil {
				return
			}
			p.ok("other")
		}
	}))
	f := new(forwarder)
	proxy := serve(t, f.serve)
	e := env(pools(t))
	through := func(to model.Node, authorization, cas string) *Upstream {
		return compile(t, &model.Upstream{
			Scheme: "https", Nodes: nodes(proxy), CAs: cas, TLS: tlsDoc(t, map[string]any{"verify": cas != ""}),
			Tunnel: &model.Tunnel{To: hostPort(to), Authorization: authorization},
		}, e)
	}
	ask := func(u *Upstream) string {
		c := call(t, "GET")
		c.Host = "n.example"
		return mustDo(t, u, c)
	}
	one := through(node, "Basic eDp5", mine.cert)
	if body := ask(one); !strings.HasPrefix(body, "GET /p?q=1 HTTP/1.1\r\nHost: n.example\r\n") || strings.Contains(body, "Proxy-") {
		t.Fatalf("the node got %q", body)
	}
	want := "CONNECT " + hostPort(node) + " HTTP/1.1\r\nHost: " + hostPort(node) + "\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
	if got := f.last(); got != want {
		t.Fatalf("the proxy got %q, want %q", got, want)
	}
	for _, tc := range []struct {
		up    *Upstream
		fresh int32 // tunnels that are made for it
	}{
		{one, 0}, // kept
		{through(node, "Basic eDp5", mine.cert), 0},
		{through(node, "Basic eDp6", mine.cert), 1}, // somebody else's tunnel
		{through(node, "Basic eDp5", ""), 1},        // verified or not
		{through(other, "Basic eDp5", mine.cert), 1},
	} {
		before := f.asked.Load()
		body := ask(tc.up)
		if n := f.asked.Load() - before; n != tc.fresh {
			t.Errorf("%s: %d tunnels made, want %d", tc.up.tunnel.To, n, tc.fresh)
		}
		if isOther := tc.up.tunnel.To == hostPort(other); (body == "other") != isOther {
			t.Errorf("%s answered %q", tc.up.tunnel.To, body)
		}
	}
	if h := g.take(); h[0].sni != "n.example" {
		t.Errorf("asked for %q", h[0].sni)
	}
}

func TestTunnelHTTP2(t *testing.T) {
	_, cert := issue(t, "n.example")
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, h2script{
		whole: func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) },
	}.run))
	f := new(forwarder)
	u := compile(t, &model.Upstream{
		Scheme: "grpcs", Nodes: nodes(serve(t, f.serve)), Tunnel: &model.Tunnel{To: hostPort(node)},
	}, env(pools(t)))
	for range 2 {
		if got := mustDo(t, u, post(t, "x")); got != "x" {
			t.Fatalf("%q", got)
		}
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("%d tunnels for two requests", n)
	}
}

// What the proxy does not connect is answered 503, whatever kept it from that
// (apicast.md §4.6).
func TestTunnelFails(t *testing.T) {
	mine, cert := issue(t, "n.example")
	stranger, _ := issue(t, "stranger")
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, echo))
	plain := serve(t, echo)
	silent := serve(t, (*peer).gone)
	for _, tc := range []struct {
		name  string
		proxy func() model.Node
		to    model.Node
		cas   string
		want  Kind
	}{
		{"nobody is there", func() model.Node { return refusing(t) }, node, "", Proxy},
		{"it refuses", func() model.Node {
			return serve(t, (&forwarder{answer: "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"}).serve)
		}, node, "", Proxy},
		{"it does not reach the node", func() model.Node { return serve(t, new(forwarder).serve) }, refusing(t), "", Proxy},
		{"it is no proxy", func() model.Node { return serve(t, (&forwarder{answer: "220 ready\r\n"}).serve) }, node, "", Proxy},
		{"it says more", func() model.Node { return serve(t, (&forwarder{early: "\x16"}).serve) }, node, "", Proxy},
		{"it leaves", func() model.Node { return serve(t, (*peer).skipHead) }, node, "", Proxy},
		{"it is silent", func() model.Node { return silent }, node, "", Proxy},
		{"the node does not speak TLS", func() model.Node { return serve(t, new(forwarder).serve) }, plain, "", Proxy},
		{"the node is another", func() model.Node { return serve(t, new(forwarder).serve) }, node, stranger.cert, Proxy},
		{"all is well", func() model.Node { return serve(t, new(forwarder).serve) }, node, mine.cert, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := compile(t, &model.Upstream{
				Scheme: "https", Nodes: nodes(tc.proxy()), CAs: tc.cas, TLS: tlsDoc(t, map[string]any{"verify": tc.cas != ""}),
				Timeout: model.Timeout{Connect: 300 * time.Millisecond}, Tunnel: &model.Tunnel{To: hostPort(tc.to)},
			}, env(pools(t)))
			c := call(t, "GET")
			c.Host = "n.example"
			_, _, err := do(u, c)
			if got := kindOf(err); got != tc.want {
				t.Fatalf("%v: %q, want %q", err, got, tc.want)
			}
		})
	}
}

func TestTrustedCAs(t *testing.T) {
	_, err := Compile(&model.Upstream{CAs: "none"}, env(pools(t)))
	if err == nil || !strings.Contains(err.Error(), "CA certificates") {
		t.Fatal(err)
	}
}

// The read time-out holds through a forward proxy as without one (field case 164).
func TestTunnelReadTimeout(t *testing.T) {
	_, cert := issue(t, "n.example")
	silent := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, hangs))
	u := compile(t, &model.Upstream{
		Scheme: "https", Nodes: nodes(serve(t, new(forwarder).serve)),
		Timeout: model.Timeout{Read: 100 * time.Millisecond}, Tunnel: &model.Tunnel{To: hostPort(silent)},
	}, env(pools(t)))
	c := call(t, "GET")
	if _, _, err := do(u, c); kindOf(err) != Timeout || ours(err).Status() != 504 {
		t.Fatal(err)
	}
}

// A large answer through a forward proxy is passed on, not kept (field case 175).
func TestLargeThroughProxy(t *testing.T) {
	const size = 256 << 20
	_, cert := issue(t, "n.example")
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, func(p *peer) {
		p.skip()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
		io.CopyN(p.Conn, new(zeros), size)
	}))
	u := compile(t, &model.Upstream{
		Scheme: "https", Nodes: nodes(serve(t, new(forwarder).serve)), Tunnel: &model.Tunnel{To: hostPort(node)},
	}, env(pools(t)))
	c := call(t, "GET")
	defer c.Finish()
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b, read, highest := make([]byte, 64<<10), 0, uint64(0)
	for i := 0; ; i++ {
		n, err := c.ReadBody(b)
		read += n
		if i%500 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			highest = max(highest, now.HeapAlloc)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(highest) - int64(before.HeapAlloc); read != size || grown > 4<<20 { // of the body's 256 MiB; other goroutines of the process have some, too
		t.Errorf("%d of %d bytes, %d more in memory meanwhile", read, size, grown)
	}
}
