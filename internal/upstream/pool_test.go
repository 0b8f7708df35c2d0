package upstream

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
)

// counted is an echo that counts its connections, opened and open.
type counted struct{ opened, open atomic.Int32 }

func (k *counted) echo(p *peer) {
	k.opened.Add(1)
	k.open.Add(1)
	defer k.open.Add(-1)
	echo(p)
}

func TestKeepalive(t *testing.T) {
	long := time.Minute
	for _, tc := range []struct {
		name   string
		k      model.Keepalive
		opened int32
		idle   int
	}{
		{"kept", model.Keepalive{Size: 1, IdleTimeout: long, Requests: 100}, 1, 1},
		{"idle timeout 0", model.Keepalive{Size: 1, Requests: 100}, 6, 0},
		{"requests", model.Keepalive{Size: 1, IdleTimeout: long, Requests: 2}, 3, 0},
		{"expired", model.Keepalive{Size: 1, IdleTimeout: 1, Requests: 100}, 6, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var k counted
			p := pools(t)
			u := compile(t, &model.Upstream{Nodes: nodes(serve(t, k.echo)), Keepalive: &tc.k}, env(p))
			for range 6 {
				mustDo(t, u, call(t, "GET"))
			}
			if k.opened.Load() != tc.opened || p.Idle() != tc.idle {
				t.Fatal(k.opened.Load(), p.Idle())
			}
		})
	}
}

// start sends a request and leaves its response unread.
func start(t *testing.T, u *Upstream) *Call {
	t.Helper()
	c := call(t, "GET")
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPoolSize(t *testing.T) {
	var k counted
	p := pools(t)
	u := compile(t, &model.Upstream{Nodes: nodes(serve(t, k.echo)),
		Keepalive: &model.Keepalive{Size: 2, IdleTimeout: time.Minute, Requests: 100}}, env(p))
	var calls []*Call
	var conns []*conn
	for range 4 {
		c := start(t, u)
		calls, conns = append(calls, c), append(conns, c.conn)
	}
	for _, c := range calls {
		if _, err := readAll(c); err != nil {
			t.Fatal(err)
		}
		c.Finish()
	}
	if p.Idle() != 2 {
		t.Fatal(p.Idle())
	}
	// The last one used is taken first.
	c := start(t, u)
	defer c.Finish()
	if c.conn != conns[3] {
		t.Fatal("not the last one used")
	}
	eventually(t, "two connections", func() bool { return k.open.Load() == 2 })
}

func TestJanitor(t *testing.T) {
	var k counted
	p := pools(t)
	n := serve(t, k.echo)
	now := time.Now()
	e := env(p)
	e.Now = func() time.Time { return now }
	first := compile(t, &model.Upstream{Nodes: nodes(n), Keepalive: &model.Keepalive{Size: 9, IdleTimeout: time.Second, Requests: 9}}, e)
	second := compile(t, &model.Upstream{Nodes: nodes(n), Keepalive: &model.Keepalive{Size: 9, IdleTimeout: time.Hour, Requests: 9}}, e)
	a, b := start(t, first), start(t, second)
	for _, c := range []*Call{a, b} {
		_, _ = readAll(c)
		c.Finish()
	}
	q := first.set.Load().nodes[0].ends.Load().list[0].pool
	q.sweep(now)
	if p.Idle() != 2 {
		t.Fatal(p.Idle())
	}
	q.sweep(now.Add(time.Minute))
	if p.Idle() != 1 {
		t.Fatal("each connection has its upstream's idle timeout")
	}
	eventually(t, "the other is closed", func() bool { return k.open.Load() == 1 })
}

// A replaced upstream keeps its connections to the nodes that stay, and loses
// those to the nodes that go.
func TestReplace(t *testing.T) {
	var stays, goes counted
	p := pools(t)
	s, g := serve(t, stays.echo), serve(t, goes.echo)
	m := &model.Upstream{Nodes: nodes(s, g)}
	before, err := Compile(m, env(p))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustDo(t, before, call(t, "GET"))
	}
	m.Nodes = nodes(s)
	after := compile(t, m, env(p))
	stream := start(t, before)
	before.Acquire()
	before.Close()
	if p.Len() != 2 {
		t.Fatal("closed before its last stream")
	}
	_, _ = readAll(stream)
	stream.Finish()
	before.Release()
	if p.Len() != 1 || p.Idle() != 1 {
		t.Fatal(p.Len(), p.Idle())
	}
	mustDo(t, after, call(t, "GET"))
	if stays.opened.Load() != 1 {
		t.Fatal("a warm connection was lost")
	}
	eventually(t, "connections to the node that went", func() bool { return goes.open.Load() == 0 })
}

// A connection that outlives its pool is closed when it is given back.
func TestGiveBackLate(t *testing.T) {
	var k counted
	p := pools(t)
	u, err := Compile(&model.Upstream{Nodes: nodes(serve(t, k.echo))}, env(p))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, u)
	u.Close()
	_, _ = readAll(c)
	c.Finish()
	eventually(t, "closed", func() bool { return k.open.Load() == 0 })
	if p.Len() != 0 {
		t.Fatal(p.Len())
	}
}

// What makes a connection unfit for another request. The node counts its
// connections; the second request must come on a new one.
func TestNotReused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, tc := range []struct {
		name     string
		response string
		method   string
		early    bool // the body is not read
		reused   bool
		body     string
		fails    Kind // of reading the body
	}{
		{name: "clean", response: ok, body: "ok", reused: true},
		{name: "chunked", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", body: "ok", reused: true},
		{name: "HEAD", method: "HEAD", response: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", reused: true},
		{name: "interim", response: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, body: "ok", reused: true},
		{name: "a second response", response: ok + ok, body: "ok"},
		{name: "a byte more", response: ok + "x", body: "ok"},
		{name: "HEAD with a body", method: "HEAD", response: ok},
		{name: "connection close", response: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", body: "ok"},
		{name: "HTTP/1.0", response: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", body: "ok"},
		{name: "HTTP/1.0 until close", response: "HTTP/1.0 200 OK\r\n\r\nok", body: "ok"},
		{name: "until close", response: "HTTP/1.1 200 OK\r\n\r\nok", body: "ok"},
		{name: "body left unread", response: ok, early: true},
		{name: "cut body", response: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", body: "ok", fails: Reset},
		{name: "cut chunk", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", body: "ok", fails: Reset},
		{name: "no last chunk", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", body: "ok", fails: Reset},
		{name: "bad chunk", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n\r\n", body: "ok", fails: Malformed},
		{name: "upgraded", response: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var opened atomic.Int32
			open := strings.Contains(tc.name, "left") || tc.reused
			u := up(t, serve(t, func(p *peer) {
				opened.Add(1)
				for {
					if _, _, err := p.request(); err != nil {
						return
					}
					p.say("%s", tc.response)
					if !open {
						return
					}
				}
			}))
			for range 2 {
				c := call(t, tc.method)
				if c.Method == "" {
					c.Method = "GET"
				}
				if err := u.RoundTrip(c); err != nil {
					t.Fatal(err)
				}
				if !tc.early {
					body, err := readAll(c)
					if body != tc.body || kindOf(err) != tc.fails {
						t.Fatal(body, err)
					}
				}
				c.Finish()
			}
			want := int32(2)
			if tc.reused {
				want = 1
			}
			if opened.Load() != want {
				t.Fatalf("%d connections", opened.Load())
			}
		})
	}
}

// What a node sends while its connection is idle never reaches a request.
func TestUnsolicited(t *testing.T) {
	var sent sync.WaitGroup
	sent.Add(1)
	u := up(t, serve(t, func(p *peer) {
		for {
			if _, _, err := p.request(); err != nil {
				return
			}
			if p.ok("good"); p.n == 0 {
				time.Sleep(10 * time.Millisecond)
				p.ok("poison")
				sent.Done()
			}
		}
	}))
	for range 3 {
		if body := mustDo(t, u, call(t, "GET")); body != "good" {
			t.Fatal(body)
		}
		sent.Wait()
	}
}

// The node closes idle connections at the moment they are used again (field
// case 154): no GET fails, no POST arrives twice.
func TestKeepaliveRace(t *testing.T) {
	var posts sync.Map
	var twice atomic.Int32
	n := serve(t, func(p *peer) {
		for i := 0; ; i++ {
			if i > 0 {
				p.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(200)) * time.Microsecond))
			}
			if _, err := p.r.Peek(1); err != nil {
				return
			}
			p.SetReadDeadline(time.Time{})
			head, body, err := p.request()
			if err != nil {
				return
			}
			if strings.HasPrefix(head, "POST") {
				if _, known := posts.LoadOrStore(body, true); known {
					twice.Add(1)
				}
			}
			p.ok(body)
		}
	})
	u := up(t, n)
	var wg sync.WaitGroup
	var failed, lost atomic.Int32
	for g := range 4 {
		wg.Go(func() {
			c := &Call{}
			for i := range 600 {
				c.Reset()
				c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if i%4 == 3 {
					id := strings.Repeat(string(rune('a'+g)), 1+i)
					c.Method, c.Body, c.Length = "POST", strings.NewReader(id), int64(len(id))
				}
				time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				_, _, err := do(u, c)
				switch {
				case err == nil:
				case c.Method == "POST" && kindOf(err) == Reset:
					lost.Add(1)
				default:
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d of 600 POSTs were lost to a closing connection", lost.Load())
	if failed.Load() > 0 || twice.Load() > 0 {
		t.Fatal(failed.Load(), "failed,", twice.Load(), "POSTs arrived twice")
	}
}

// Upstreams and calls come and go while requests run.
func TestChurn(t *testing.T) {
	p := pools(t)
	var k counted
	n := serve(t, k.echo)
	e := env(p)
	e.Names = names(t, func(context.Context, string) (resolve.Answer, error) {
		return answer("127.0.0.1"), nil
	})
	m := &model.Upstream{Nodes: nodes(n, model.Node{Host: "named", Port: n.Port, Weight: 1})}
	var current atomic.Pointer[Upstream]
	first, err := Compile(m, e)
	if err != nil {
		t.Fatal(err)
	}
	current.Store(first)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			c := &Call{}
			for range 300 {
				c.Reset()
				c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if status, _, err := do(current.Load(), c); status != 200 {
					t.Error(err)
				}
			}
		})
	}
	for range 300 {
		next, err := Compile(m, e)
		if err != nil {
			t.Fatal(err)
		}
		current.Swap(next).Close()
	}
	wg.Wait()
	current.Load().Close()
	if p.Len() != 0 {
		t.Fatal(p.Len())
	}
	eventually(t, "no connection", func() bool { return k.open.Load() == 0 })
	if k.opened.Load() > 20 {
		t.Fatalf("%d connections: replacing an upstream loses them", k.opened.Load())
	}
}
