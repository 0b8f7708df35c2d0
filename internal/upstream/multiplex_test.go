package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/model"
	"weir/internal/wire"
)

// An h2peer is one HTTP/2 connection as a scripted node sees it.
type h2peer struct {
	n int // number of the connection, from 0

	mu    sync.Mutex
	f     *http2.Framer
	close func()
	block bytes.Buffer
	enc   *hpack.Encoder
}

// An h2script is what a node does with requests: at the head (true: it is dealt
// with), and when all of it is there.
type h2script struct {
	settings []http2.Setting
	head     func(p *h2peer, id uint32, head map[string]string) bool
	whole    func(p *h2peer, id uint32, head map[string]string, body string)
	deaf     func(p *h2peer) bool // to pings
}

func (s h2script) run(q *peer) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(q.r, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	p := &h2peer{n: q.n, f: http2.NewFramer(q.Conn, q.r), close: func() { q.Conn.Close() }}
	p.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.enc = hpack.NewEncoder(&p.block)
	p.write(func() error { return p.f.WriteSettings(s.settings...) })
	heads, bodies := map[uint32]map[string]string{}, map[uint32]*strings.Builder{}
	ended := func(id uint32) {
		if heads[id] != nil && s.whole != nil {
			s.whole(p, id, heads[id], bodies[id].String())
		}
	}
	for {
		f, err := p.f.ReadFrame()
		if err != nil {
			return
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.write(p.f.WriteSettingsAck)
			}
		case *http2.PingFrame:
			if !f.IsAck() && (s.deaf == nil || !s.deaf(p)) {
				p.write(func() error { return p.f.WritePing(true, f.Data) })
			}
		case *http2.MetaHeadersFrame:
			head := map[string]string{}
			for _, h := range f.Fields {
				head[h.Name] += h.Value
			}
			if s.head != nil && s.head(p, id, head) {
				continue
			}
			heads[id], bodies[id] = head, new(strings.Builder)
			if f.StreamEnded() {
				ended(id)
			}
		case *http2.DataFrame:
			if n := uint32(len(f.Data())); n > 0 {
				p.write(func() error { return errors.Join(p.f.WriteWindowUpdate(0, n), p.f.WriteWindowUpdate(id, n)) })
			}
			if bodies[id] != nil {
				bodies[id].Write(f.Data())
				if f.StreamEnded() {
					ended(id)
				}
			}
		}
	}
}

func (p *h2peer) write(f func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = f() // the gateway may have left
}

func (p *h2peer) fields(id uint32, end bool, pairs ...string) {
	p.write(func() error {
		p.block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			p.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		return p.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end})
	})
}

func (p *h2peer) data(id uint32, end bool, text string) {
	p.write(func() error { return p.f.WriteData(id, end, []byte(text)) })
}

func (p *h2peer) answer(id uint32, body string) {
	p.fields(id, false, ":status", "200", "content-type", "application/grpc")
	p.data(id, false, body)
	p.fields(id, true, "grpc-status", "0")
}

func (p *h2peer) reset(id uint32, code http2.ErrCode) {
	p.write(func() error { return p.f.WriteRSTStream(id, code) })
}

func (p *h2peer) goAway(last uint32) {
	p.write(func() error { return p.f.WriteGoAway(last, http2.ErrCodeNo, nil) })
}

// grpcUp is an upstream of scheme grpc.
func grpcUp(t testing.TB, change func(*model.Upstream), nodes ...model.Node) *Upstream {
	t.Helper()
	m := &model.Upstream{Scheme: "grpc", Nodes: nodes}
	if change != nil {
		change(m)
	}
	return compile(t, m, env(pools(t)))
}

func post(t testing.TB, body string) *Call {
	c := call(t, "POST")
	c.Body, c.Length = struct{ io.Reader }{strings.NewReader(body)}, wire.Chunked
	return c
}

func TestRequestOverHTTP2(t *testing.T) {
	var mu sync.Mutex
	var got map[string]string
	node := serve(t, h2script{whole: func(p *h2peer, id uint32, head map[string]string, body string) {
		mu.Lock()
		got = head
		mu.Unlock()
		p.answer(id, body)
	}}.run)
	u := grpcUp(t, func(m *model.Upstream) { m.PassHost = "rewrite"; m.Host = "grpc.test" }, node)
	for _, target := range []string{"/a.B/C", "//a//b?x=%2f", "*", "/?"} {
		c := post(t, "hello")
		c.Target, c.Extra = target, []byte("X-Real-IP: 192.0.2.1\r\nX-Two: a: b\r\n")
		c.Request.Header.Add("TE", "gzip")
		c.Request.Header.Del("TE")
		c.Request.Header.Add("Connection", "close")
		if err := u.RoundTrip(c); err != nil {
			t.Fatal(err)
		}
		body, err := readAll(c)
		if err != nil || body != "hello" || c.Response.Status != 200 || c.Response.Reason != "OK" || c.Response.Length != wire.Chunked {
			t.Errorf("%q %v %+v", body, err, c.Response)
		}
		if v, _ := c.Trailers().Get("grpc-status"); v != "0" || !c.BodyDone() {
			t.Errorf("trailers %v", c.Trailers())
		}
		if got := c.Tries; len(got) != 1 || got[0].Scheme != "grpc" || got[0].Host != "grpc.test" || got[0].Status != 200 {
			t.Errorf("%+v", got)
		}
		c.Finish()
		mu.Lock()
		for name, want := range map[string]string{
			":method": "POST", ":path": target, ":scheme": "http", ":authority": "grpc.test", "te": "trailers", "x-a": "1",
			"x-real-ip": "192.0.2.1", "x-two": "a: b", "connection": "", "user-agent": "", "accept-encoding": "", "host": "",
		} {
			if got[name] != want {
				t.Errorf("%s: %s %q, want %q", target, name, got[name], want)
			}
		}
		mu.Unlock()
	}
}

// A request that the node has not looked at is sent again, whatever its method;
// one that it may have looked at is not.
func TestUnprocessed(t *testing.T) {
	body := strings.Repeat("x", 10_000)
	for _, tc := range []struct {
		name   string
		refuse func(p *h2peer, id uint32)
		kind   Kind
		asked  int32
	}{
		{"refused", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeRefusedStream) }, 0, 2},
		{"goodbye", func(p *h2peer, _ uint32) { p.goAway(0) }, 0, 2},
		{"goodbye after it", func(p *h2peer, id uint32) { p.goAway(id); p.close() }, Reset, 1},
		{"reset", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeInternal) }, Reset, 1},
		{"closed", func(p *h2peer, _ uint32) { p.close() }, Reset, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked atomic.Int32
			node := serve(t, h2script{
				head: func(p *h2peer, id uint32, _ map[string]string) bool {
					if asked.Add(1) > 1 {
						return false
					}
					tc.refuse(p, id)
					return true
				},
				whole: func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) },
			}.run)
			_, got, err := do(grpcUp(t, nil, node), post(t, body))
			if kindOf(err) != tc.kind || err == nil && got != body || asked.Load() != tc.asked {
				t.Errorf("%d bytes, %v, asked %d times", len(got), err, asked.Load())
			}
		})
	}
}

// A node that refuses on and on is left for another.
func TestRefusing(t *testing.T) {
	busy := serve(t, h2script{head: func(p *h2peer, id uint32, _ map[string]string) bool {
		p.reset(id, http2.ErrCodeRefusedStream)
		return true
	}}.run)
	good := serve(t, h2script{whole: func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) }}.run)
	u := grpcUp(t, nil, busy, good)
	for range 4 {
		if got := mustDo(t, u, post(t, "hello")); got != "hello" {
			t.Errorf("%q", got)
		}
	}
	if _, _, err := do(grpcUp(t, nil, busy), post(t, "hello")); kindOf(err) != Reset {
		t.Error(err)
	}
}

// Case 162: every connection says goodbye after 100 requests, while others are
// under way.
func TestGoodbyeEachHundred(t *testing.T) {
	var opened atomic.Int32
	script := h2script{}
	count := map[*h2peer]int{}
	var mu sync.Mutex
	script.head = func(p *h2peer, id uint32, _ map[string]string) bool {
		mu.Lock()
		defer mu.Unlock()
		if count[p]++; count[p] == 100 {
			p.goAway(id)
		}
		return count[p] > 100 // those were refused by the goodbye
	}
	script.whole = func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) }
	u := grpcUp(t, nil, serve(t, func(p *peer) { opened.Add(1); script.run(p) }))
	body := strings.Repeat("x", 10_000)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c := post(t, "")
			for range 60 {
				c.Body, c.Length = struct{ io.Reader }{strings.NewReader(body)}, wire.Chunked
				if _, got, err := do(u, c); err != nil || got != body {
					t.Errorf("%d bytes, %v", len(got), err)
					return
				}
				c.Reset()
				c.Request, c.Method = request(t, "GET /p HTTP/1.1\r\nHost: a\r\n\r\n"), "POST"
			}
		})
	}
	wg.Wait()
	if n := opened.Load(); n < 9 || n > 60 {
		t.Errorf("%d connections for 960 requests", n)
	}
}

// Many calls share a connection, as far as the node wants it.
func TestShared(t *testing.T) {
	for _, tc := range []struct {
		limit  uint32
		opened int32
	}{{1000, 1}, {8, 4}} {
		var opened, at atomic.Int32
		release := make(chan struct{})
		script := h2script{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: tc.limit}}}
		script.whole = func(p *h2peer, id uint32, _ map[string]string, body string) {
			at.Add(1)
			go func() { <-release; p.answer(id, body) }()
		}
		u := grpcUp(t, nil, serve(t, func(p *peer) { opened.Add(1); script.run(p) }))
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				want := strings.Repeat(fmt.Sprint(i%10), 10_000+i)
				if _, got, err := do(u, post(t, want)); err != nil || got != want {
					t.Errorf("%d of %d bytes: %v", len(got), len(want), err)
				}
			})
		}
		eventually(t, "all requests at the node", func() bool { return at.Load() == 32 })
		close(release)
		wg.Wait()
		if n := opened.Load(); n != tc.opened {
			t.Errorf("%d connections, want %d", n, tc.opened)
		}
	}
}

func TestSharedKeepalive(t *testing.T) {
	for _, tc := range []struct {
		name   string
		k      model.Keepalive
		opened int32
		idle   int
	}{
		{"kept", model.Keepalive{Size: 1, IdleTimeout: time.Minute, Requests: 100}, 1, 1},
		{"idle timeout 0", model.Keepalive{Size: 1, Requests: 100}, 6, 0},
		{"requests", model.Keepalive{Size: 1, IdleTimeout: time.Minute, Requests: 2}, 3, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var opened, open atomic.Int32
			script := h2script{whole: func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) }}
			p := pools(t)
			u := compile(t, &model.Upstream{Scheme: "grpc", Keepalive: &tc.k, Nodes: nodes(serve(t, func(p *peer) {
				opened.Add(1)
				open.Add(1)
				script.run(p)
				open.Add(-1)
			}))}, env(p))
			for range 6 {
				mustDo(t, u, post(t, "x"))
			}
			if opened.Load() != tc.opened || p.Idle() != tc.idle {
				t.Error(opened.Load(), p.Idle())
			}
			eventually(t, "unused connections closed", func() bool { return open.Load() == int32(tc.idle) })
			p.all()[0].shared.sweep(time.Now().Add(time.Hour))
			eventually(t, "expired connections closed", func() bool { return open.Load() == 0 })
		})
	}
}

// A connection that was silent for long is asked for a sign of life before it gets
// a request; a node that is gone without a word costs no request.
func TestSilentConnection(t *testing.T) {
	var opened, deaf atomic.Int32
	script := h2script{
		whole: func(p *h2peer, id uint32, _ map[string]string, body string) { p.answer(id, body) },
		deaf:  func(p *h2peer) bool { return p.n < int(deaf.Load()) },
	}
	var now atomic.Int64
	e := env(pools(t))
	e.Now = func() time.Time { return time.Now().Add(time.Duration(now.Load())) }
	u := compile(t, &model.Upstream{
		Scheme: "grpc", Timeout: model.Timeout{Connect: 100 * time.Millisecond},
		Nodes: nodes(serve(t, func(p *peer) { opened.Add(1); script.run(p) })),
	}, e)
	mustDo(t, u, post(t, "a"))
	now.Store(int64(20 * time.Second))
	mustDo(t, u, post(t, "b"))
	if opened.Load() != 1 {
		t.Errorf("%d connections to a node that lives", opened.Load())
	}
	deaf.Store(1)
	mustDo(t, u, post(t, "c"))
	if opened.Load() != 2 {
		t.Errorf("%d connections after one was lost", opened.Load())
	}
}

// The request's body and the response go their ways at the same time.
func TestSharedDuplex(t *testing.T) {
	script := h2script{}
	script.head = func(p *h2peer, id uint32, _ map[string]string) bool {
		p.fields(id, false, ":status", "200")
		p.data(id, false, "first")
		return false
	}
	script.whole = func(p *h2peer, id uint32, _ map[string]string, body string) {
		p.data(id, false, body)
		p.fields(id, true, "grpc-status", "7")
	}
	u := grpcUp(t, nil, serve(t, script.run))
	c, body := call(t, "POST"), newTrickle()
	c.Body, c.Length, c.StopBody = body, wire.Chunked, func() { close(body.stop) }
	defer c.Finish()
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := c.ReadBody(b); err != nil || string(b[:n]) != "first" {
		t.Fatalf("%q %v", b[:n], err)
	}
	body.pieces <- "second"
	close(body.pieces)
	rest, err := readAll(c)
	if v, _ := c.Trailers().Get("grpc-status"); rest != "second" || err != nil || v != "7" {
		t.Errorf("%q %v %v", rest, err, c.Trailers())
	}
}

func TestSharedTimeouts(t *testing.T) {
	silent := serve(t, h2script{}.run)
	half := serve(t, h2script{whole: func(p *h2peer, id uint32, _ map[string]string, _ string) {
		p.fields(id, false, ":status", "200")
		p.data(id, false, "some")
	}}.run)
	stuck := serve(t, h2script{
		settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 10}},
		head:     func(*h2peer, uint32, map[string]string) bool { return true },
	}.run)
	mute := serve(t, func(p *peer) { p.gone() })
	h1 := serve(t, func(p *peer) { p.say("HTTP/1.1 400 Bad Request\r\n\r\n") })
	short := func(m *model.Upstream) {
		m.Timeout = model.Timeout{Connect: 100 * time.Millisecond, Send: 100 * time.Millisecond, Read: 100 * time.Millisecond}
	}
	for _, tc := range []struct {
		name string
		node model.Node
		body string
		kind Kind
	}{
		{"no head", silent, "x", Timeout}, {"no end", half, "x", Timeout}, {"takes nothing", stuck, strings.Repeat("x", 1000), Timeout},
		{"no HTTP/2", mute, "x", Timeout}, {"HTTP/1.1", h1, "x", Dial}, {"nobody", refusing(t), "x", Dial},
	} {
		_, _, err := do(grpcUp(t, short, tc.node), post(t, tc.body))
		if kindOf(err) != tc.kind {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Whatever a call is at, Abort ends it, and the connection stays for others.
func TestSharedAbort(t *testing.T) {
	var opened atomic.Int32
	script := h2script{head: func(p *h2peer, id uint32, head map[string]string) bool {
		switch head[":path"] {
		case "/head":
		case "/body":
			p.fields(id, false, ":status", "200")
		default:
			p.answer(id, "fine")
		}
		return true
	}}
	u := grpcUp(t, nil, serve(t, func(p *peer) { opened.Add(1); script.run(p) }))
	for _, at := range []string{"/head", "/body", "/before"} {
		c, body := call(t, "POST"), newTrickle()
		c.Target, c.Body, c.Length, c.StopBody = at, body, wire.Chunked, func() { close(body.stop) }
		if at == "/before" {
			c.Abort()
		} else {
			time.AfterFunc(50*time.Millisecond, c.Abort)
		}
		if _, _, err := do(u, c); kindOf(err) != Aborted {
			t.Errorf("%s: %v", at, err)
		}
	}
	if got := mustDo(t, u, post(t, "x")); got != "fine" || opened.Load() != 1 {
		t.Errorf("%q, %d connections", got, opened.Load())
	}
}

// A body that breaks off breaks the request.
func TestSharedBadBody(t *testing.T) {
	u := grpcUp(t, nil, serve(t, h2script{}.run))
	c, body := call(t, "POST"), newTrickle()
	c.Body, c.Length = body, wire.Chunked
	body.pieces <- "some"
	body.err = errStopped
	close(body.pieces)
	if _, _, err := do(u, c); kindOf(err) != ClientBody || !errors.Is(err, errStopped) {
		t.Error(err)
	}
}
