package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A peer is one connection as a scripted node sees it.
type peer struct {
	net.Conn
	r *bufio.Reader
	n int // number of the connection, from 0
}

// head reads one request head.
func (p *peer) head() (string, error) {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		c, err := p.r.ReadByte()
		if err != nil {
			return b.String(), err
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// request reads one request with its body.
func (p *peer) request() (head, body string, err error) {
	if head, err = p.head(); err != nil {
		return head, "", err
	}
	b, err := io.ReadAll(p.body(head))
	return head, string(b), err
}

func (p *peer) body(head string) io.Reader {
	if strings.Contains(head, "Transfer-Encoding: chunked\r\n") {
		return &chunkedBody{r: p.r}
	}
	_, rest, ok := strings.Cut(head, "Content-Length: ")
	if !ok {
		return strings.NewReader("")
	}
	length, _, _ := strings.Cut(rest, "\r\n")
	n, _ := strconv.ParseInt(length, 10, 64)
	return &fixedBody{io.LimitedReader{R: p.r, N: n}}
}

// fixedBody fails if the body is cut.
type fixedBody struct{ io.LimitedReader }

func (b *fixedBody) Read(p []byte) (int, error) {
	n, err := b.LimitedReader.Read(p)
	if err == io.EOF && b.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunkedBody also consumes the empty line at the end, or a trailer section.
type chunkedBody struct {
	r  *bufio.Reader
	cr io.Reader
}

func (b *chunkedBody) Read(p []byte) (int, error) {
	if b.cr == nil {
		b.cr = httputil.NewChunkedReader(b.r)
	}
	n, err := b.cr.Read(p)
	if err != io.EOF {
		return n, err
	}
	for {
		line, err := b.r.ReadString('\n')
		switch {
		case err != nil:
			return n, err
		case line == "\r\n":
			return n, io.EOF
		}
	}
}

func (p *peer) say(format string, a ...any) { fmt.Fprintf(p.Conn, format, a...) }

// ok answers with a body.
func (p *peer) ok(body string) {
	p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echo answers every request with its head and body.
func echo(p *peer) {
	for {
		head, body, err := p.request()
		if err != nil {
			return
		}
		p.ok(head + body)
	}
}

// skip reads one request, or what there is of it.
func (p *peer) skip() { _, _, _ = p.request() }

// skipHead is skip for the head alone.
func (p *peer) skipHead() { _, _ = p.head() }

// gone reads until the peer is closed.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.r) }

// serve starts a node that runs script for every connection and closes the
// connection at its end.
func serve(t testing.TB, script func(*peer)) model.Node {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", script)
}

func serveAt(t testing.TB, addr string, script func(*peer)) model.Node {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		open = map[net.Conn]bool{}
	)
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				script(&peer{Conn: c, r: bufio.NewReader(c), n: n})
				c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	at := ln.Addr().(*net.TCPAddr)
	return model.Node{Host: at.IP.String(), Port: at.Port, Weight: 1}
}

// refusing is a node that refuses connections.
func refusing(t testing.TB) model.Node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return model.Node{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, Weight: 1}
}

// pools are closed at the end of the test.
func pools(t testing.TB) *Pools {
	p := NewPools()
	t.Cleanup(p.Close)
	return p
}

func env(p *Pools) Env { return Env{Pools: p, Start: func(int) int { return 0 }} }

// compile makes an Upstream that ends with the test.
func compile(t testing.TB, m *model.Upstream, e Env) *Upstream {
	t.Helper()
	u, err := Compile(m, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// names is a cache of what lookup says.
func names(t testing.TB, lookup func(context.Context, string) (resolve.Answer, error)) *resolve.Cache {
	c := resolve.NewCache(resolve.Options{Lookup: lookup})
	t.Cleanup(c.Close)
	return c
}

// answer is addresses that a name has for a second.
func answer(addrs ...string) resolve.Answer {
	a := resolve.Answer{TTL: time.Second}
	for _, s := range addrs {
		a.Records = append(a.Records, resolve.Record{Addr: netip.MustParseAddr(s), Weight: 1})
	}
	return a
}

// rotation is the balancer of u's first nodes.
func rotation(u *Upstream) *roundRobin { return u.set.Load().groups[0].(*roundRobin) }

func up(t testing.TB, nodes ...model.Node) *Upstream {
	t.Helper()
	return compile(t, &model.Upstream{Nodes: nodes}, env(pools(t)))
}

// request parses a head as the engine would.
func request(t testing.TB, head string) *wire.Request {
	t.Helper()
	var r wire.Reader
	r.Reset(strings.NewReader(head), wire.Limits{})
	req := &wire.Request{}
	if err := r.ReadRequest(req); err != nil {
		t.Fatal(err)
	}
	return req
}

func call(t testing.TB, method string) *Call {
	return &Call{Request: request(t, "GET /p?q=1 HTTP/1.1\r\nHost: client.example\r\nX-A: 1\r\n\r\n"), Method: method}
}

// readAll reads the response's body.
func readAll(c *Call) (string, error) {
	var b bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := c.ReadBody(buf)
		b.Write(buf[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}

// do makes one exchange and finishes it.
func do(u *Upstream, c *Call) (status int, body string, err error) {
	defer c.Finish()
	if err := u.RoundTrip(c); err != nil {
		return 0, "", err
	}
	status = c.Response.Status
	body, err = readAll(c)
	return status, body, err
}

func mustDo(t testing.TB, u *Upstream, c *Call) string {
	t.Helper()
	status, body, err := do(u, c)
	if err != nil || status != 200 {
		t.Fatalf("status %d, error %v", status, err)
	}
	return body
}

// kindOf is the Kind of an *Error, 0 of others.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// trickle is a body whose rest is never at hand: it waits for the next piece.
type trickle struct {
	pieces chan string
	err    error // at the end; nil: io.EOF
	rest   string
	stop   chan struct{}
	reads  atomic.Int32 // begun
}

func newTrickle() *trickle {
	return &trickle{pieces: make(chan string, 100), stop: make(chan struct{})}
}

var errStopped = errors.New("stopped")

func (b *trickle) Read(p []byte) (int, error) {
	b.reads.Add(1)
	if b.rest == "" {
		select {
		case s, ok := <-b.pieces:
			if !ok {
				if b.err != nil {
					return 0, b.err
				}
				return 0, io.EOF
			}
			b.rest = s
		case <-b.stop:
			return 0, errStopped
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 5000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("never: " + what)
}
