package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/wire"
)

// Scripts of nodes that fail.
func closes(p *peer) { p.skip() }
func hangs(p *peer)  { p.skip(); p.gone() }
func malformed(p *peer) {
	p.skip()
	p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
}
func otherProto(p *peer) { p.skip(); p.say("SSH-2.0-x\r\n\r\n") }
func halfHead(p *peer)   { p.skip(); p.say("HTTP/1.1 200 OK\r\nConte") }
func early(p *peer)      { p.skip(); p.say("HTTP/1.1 103 Early Hints\r\n\r\n") }
func closesAtOnce(*peer) {}

// A retryCase is one request over two nodes, of which the second answers.
type retryCase struct {
	name    string
	first   func(*peer) // nil: refuses connections
	method  string
	body    string
	retries *int
	timeout model.Timeout
	tries   int
	kind    Kind // 0: the second node answers
	status  int
}

func TestRetry(t *testing.T) {
	two := 2
	zero := 0
	short := model.Timeout{Connect: time.Second, Send: time.Second, Read: 50 * time.Millisecond}
	for _, tc := range []retryCase{
		{name: "refused GET", method: "GET", tries: 2},
		{name: "refused POST gets the whole body", method: "POST", body: "body", tries: 2},
		{name: "no retries", method: "GET", retries: &zero, tries: 1, kind: Dial, status: 502},
		{name: "closed GET", first: closes, method: "GET", tries: 2},
		{name: "closed HEAD", first: closes, method: "HEAD", tries: 2},
		{name: "closed PUT gets the whole body", first: closes, method: "PUT", body: "body", tries: 2},
		{name: "closed POST", first: closes, method: "POST", body: "body", tries: 1, kind: Reset, status: 502},
		{name: "closed POST without a body", first: closes, method: "POST", tries: 1, kind: Reset, status: 502},
		{name: "closed PATCH", first: closes, method: "PATCH", tries: 1, kind: Reset, status: 502},
		{name: "closed LOCK", first: closes, method: "LOCK", tries: 1, kind: Reset, status: 502},
		{name: "closed, unknown method", first: closes, method: "BREW", tries: 1, kind: Reset, status: 502},
		{name: "closed at once GET", first: closesAtOnce, method: "GET", tries: 2},
		{name: "slow GET", first: hangs, method: "GET", timeout: short, tries: 2},
		{name: "slow POST", first: hangs, method: "POST", body: "b", timeout: short, tries: 1, kind: Timeout, status: 504},
		{name: "malformed", first: malformed, method: "GET", tries: 1, kind: Malformed, status: 502},
		{name: "not HTTP", first: otherProto, method: "GET", tries: 1, kind: Malformed, status: 502},
		{name: "half a head", first: halfHead, method: "GET", tries: 1, kind: Reset, status: 502},
		{name: "closed after an interim response", first: early, method: "GET", tries: 1, kind: Reset, status: 502},
		{name: "more retries than nodes", method: "GET", retries: &two, tries: 2},
	} {
		t.Run(tc.name, tc.run)
	}
}

func (tc retryCase) run(t *testing.T) {
	first := refusing(t)
	if tc.first != nil {
		first = serve(t, tc.first)
	}
	var reached atomic.Int32
	second := serve(t, func(p *peer) {
		reached.Add(1)
		head, body, err := p.request()
		if err != nil {
			return
		}
		if !strings.HasPrefix(head, "HEAD") {
			p.ok(body)
		} else {
			p.ok("")
		}
	})
	u := compile(t, &model.Upstream{Nodes: nodes(first, second), Retries: tc.retries, Timeout: tc.timeout}, env(pools(t)))
	c := call(t, tc.method)
	if tc.body != "" {
		c.Body, c.Length = strings.NewReader(tc.body), int64(len(tc.body))
	}
	var begun []string
	c.BeforeTry = func(try int) error {
		begun = append(begun, fmt.Sprint(try, c.Node))
		return nil
	}
	_, body, err := do(u, c)
	if kindOf(err) != tc.kind || tc.kind == 0 && err != nil {
		t.Fatalf("error %v", err)
	}
	if tc.kind == 0 && body != tc.body {
		t.Fatalf("body %q", body)
	}
	if tc.kind != 0 {
		var e *Error
		if errors.As(err, &e); e.Status() != tc.status || e.Addr != u.Nodes()[0] {
			t.Fatal(e.Status(), e.Addr)
		}
		if reached.Load() != 0 {
			t.Fatal("the second node was reached")
		}
	}
	if len(c.Tries) != tc.tries || len(begun) != tc.tries || begun[0] != "0"+c.Tries[0].Addr {
		t.Fatalf("%+v %v", c.Tries, begun)
	}
	if len(begun) == 2 && (c.Tries[0].Err == nil || begun[1] != "1"+u.Nodes()[1] || c.Tries[1].Status != 200) {
		t.Fatalf("%+v %v", c.Tries, begun)
	}
}

func TestRetryLimits(t *testing.T) {
	five, three := 5, 3
	short := model.Timeout{Read: 30 * time.Millisecond}
	dead := func(n int) []model.Node {
		var all []model.Node
		for range n {
			all = append(all, refusing(t))
		}
		return all
	}
	slow := serve(t, hangs)
	for _, tc := range []struct {
		name   string
		m      model.Upstream
		kind   Kind
		status int
		tries  int
	}{
		{"no nodes", model.Upstream{}, NoNodes, 503, 0},
		{"all of weight 0", model.Upstream{Nodes: []model.Node{{Host: "a"}, {Host: "b"}}}, NoneLeft, 502, 0},
		{"every node once", model.Upstream{Nodes: dead(3)}, Dial, 502, 3},
		{"all tried", model.Upstream{Nodes: dead(2), Retries: &five}, NoneLeft, 502, 2},
		{"a single node again", model.Upstream{Nodes: dead(1), Retries: &three}, Dial, 502, 4},
		{"a single node", model.Upstream{Nodes: dead(1)}, Dial, 502, 1},
		{"retry_timeout", model.Upstream{Nodes: []model.Node{slow, slow, slow}, Timeout: short,
			RetryTimeout: time.Nanosecond}, RetryTimeout, 502, 1},
		{"retry_timeout not yet", model.Upstream{Nodes: []model.Node{slow, slow, slow}, Timeout: short,
			RetryTimeout: time.Hour}, Timeout, 504, 3},
		{"all slow", model.Upstream{Nodes: []model.Node{slow, slow}, Timeout: short}, Timeout, 504, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := call(t, "GET")
			_, _, err := do(compile(t, &tc.m, env(pools(t))), c)
			var e *Error
			if !errors.As(err, &e) || e.Kind != tc.kind || e.Status() != tc.status || len(c.Tries) != tc.tries {
				t.Fatalf("%v, %d tries", err, len(c.Tries))
			}
		})
	}
}

func TestRetryOverrides(t *testing.T) {
	zero := 0
	u := up(t, serve(t, hangs), serve(t, echo))
	c := call(t, "GET")
	c.Retries, c.Timeout = &zero, &model.Timeout{Read: 20 * time.Millisecond}
	if _, _, err := do(u, c); kindOf(err) != Timeout || len(c.Tries) != 1 {
		t.Fatal(err, c.Tries)
	}
}

func TestCallbacksEndTheCall(t *testing.T) {
	boom := errors.New("boom")
	u := up(t, serve(t, func(p *peer) {
		p.skip()
		p.say("HTTP/1.1 103 Early Hints\r\n\r\n")
		p.gone()
	}), serve(t, echo))
	c := call(t, "GET")
	c.Early = func(*wire.Response) error { return boom }
	if _, _, err := do(u, c); err != boom {
		t.Fatal(err)
	}
	c.Reset()
	c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	c.BeforeTry = func(int) error { return boom }
	if _, _, err := do(u, c); err != boom {
		t.Fatal(err)
	}
}

// Nodes whose names do not resolve do not exist.
func TestResolve(t *testing.T) {
	n := serve(t, echo)
	var mu sync.Mutex
	lookups := map[string]int{}
	looked := func(host string) int {
		mu.Lock()
		defer mu.Unlock()
		return lookups[host]
	}
	e := env(pools(t))
	now := time.Now()
	e.Now = func() time.Time { return now }
	e.Names = names(t, func(_ context.Context, host string) (resolve.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		lookups[host]++
		switch host {
		case "good":
			return answer("127.0.0.1"), nil
		case "empty":
			return resolve.Answer{}, nil
		}
		return resolve.Answer{}, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true, IsTimeout: true}
	})
	none := &model.Keepalive{Size: 1}
	named := func(hosts ...string) *Upstream {
		var all []model.Node
		for _, h := range hosts {
			all = append(all, model.Node{Host: h, Port: n.Port, Weight: 1})
		}
		zero := 0
		return compile(t, &model.Upstream{Nodes: all, Retries: &zero, Keepalive: none}, e)
	}
	u := named("bad", "empty", "good")
	for range 2 {
		c := call(t, "GET")
		mustDo(t, u, c)
		if len(c.Tries) != 1 || c.Tries[0].Addr != "127.0.0.1:"+strconv.Itoa(n.Port) {
			t.Fatalf("%+v", c.Tries)
		}
	}
	if looked("good") != 1 || looked("bad") > 1 {
		t.Fatal(looked("good"), looked("bad"))
	}
	now = now.Add(time.Minute)
	mustDo(t, u, call(t, "GET"))
	if looked("good") != 2 {
		t.Fatal(looked("good"))
	}
	for _, u := range []*Upstream{named("bad", "empty"), named("bad")} {
		c := call(t, "GET")
		_, _, err := do(u, c)
		if kindOf(err) != NoNodes || !errors.Is(err, errUnresolved) || len(c.Tries) != 0 {
			t.Fatal(err, c.Tries)
		}
	}
}

// A kept connection that dies before a byte of the response says nothing about
// its node (field case 154).
func TestKeptConnectionDies(t *testing.T) {
	for _, tc := range []struct {
		method string
		kind   Kind
	}{{"GET", 0}, {"PUT", 0}, {"POST", Reset}} {
		t.Run(tc.method, func(t *testing.T) {
			var requests atomic.Int32
			u := up(t, serve(t, func(p *peer) {
				for i := 0; ; i++ {
					_, body, err := p.request()
					if err != nil {
						return
					}
					requests.Add(1)
					if p.n == 0 && i == 1 {
						return
					}
					p.ok(body)
				}
			}), refusing(t))
			c := call(t, "GET")
			mustDo(t, u, c)
			c.Reset()
			c.Request, c.Method = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), tc.method
			if tc.method != "GET" {
				c.Body, c.Length = strings.NewReader("body"), wire.Chunked
			}
			rotation(u).next.Store(0)
			_, body, err := do(u, c)
			if kindOf(err) != tc.kind || err != nil && tc.kind == 0 {
				t.Fatal(err)
			}
			want := int32(3)
			if tc.kind != 0 {
				want = 2
			} else if tc.method == "PUT" && body != "body" {
				t.Fatalf("body %q", body)
			}
			if requests.Load() != want || len(c.Tries) != 1 {
				t.Fatal(requests.Load(), c.Tries)
			}
		})
	}
}

// A kept connection that turns out to be reset before a byte was written is
// replaced whatever the method: the node has seen nothing.
func TestKeptConnectionResetBeforeWriting(t *testing.T) {
	for _, body := range []string{"", "body"} {
		t.Run(body, func(t *testing.T) {
			reset := make(chan bool)
			doReset := sync.OnceFunc(func() { close(reset) })
			n := serve(t, func(p *peer) {
				if p.n == 0 {
					p.skip()
					p.ok("")
					<-reset
					_ = p.Conn.(*net.TCPConn).SetLinger(0)
					return
				}
				_, body, _ := p.request()
				p.ok(body)
			})
			t.Cleanup(doReset)
			u := up(t, n)
			mustDo(t, u, call(t, "GET"))
			c := call(t, "POST")
			if body != "" {
				c.Body, c.Length = strings.NewReader(body), int64(len(body))
			}
			defer c.Finish()
			if err := c.begin(u); err != nil {
				t.Fatal(err)
			}
			node := c.set.pick(c)
			c.Tries = append(c.Tries, Try{})
			if err := c.connect(node, true); err != nil || !c.reused {
				t.Fatal(err)
			}
			doReset()
			eventually(t, "the reset is here", func() bool { return !c.conn.alive() })
			if err := c.exchange(node); kindOf(err) != Reset || !c.repeat {
				t.Fatal(err, c.repeat)
			}
			if err := c.connect(node, true); err != nil || c.reused {
				t.Fatal(err)
			}
			if err := c.exchange(node); err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(c); got != body {
				t.Fatal(got, err)
			}
		})
	}
}

// A body that does not fit the window is not sent twice.
func TestWindow(t *testing.T) {
	for _, tc := range []struct {
		size  int
		kind  Kind
		ready bool
	}{{window, 0, true}, {window, 0, false}, {window + 1, Reset, true}, {window + 1, Reset, false}} {
		t.Run(fmt.Sprint(tc.size, tc.ready), func(t *testing.T) {
			u := up(t, serve(t, closes), serve(t, func(p *peer) {
				_, body, err := p.request()
				if err == nil {
					p.ok(body)
				}
			}))
			c := call(t, "PUT")
			body := strings.Repeat("x", tc.size)
			c.Length = int64(tc.size)
			if c.Body = strings.NewReader(body); !tc.ready {
				c.Body = struct{ io.Reader }{c.Body}
			}
			_, got, err := do(u, c)
			if kindOf(err) != tc.kind || tc.kind == 0 && (err != nil || got != body) {
				t.Fatal(err, len(got))
			}
		})
	}
}

// What the goroutine has read of the body goes to the second node as well, and
// it goes on with it.
func TestRetryWhileUploading(t *testing.T) {
	for _, length := range []int64{9, wire.Chunked} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			body := newTrickle()
			body.pieces <- "one"
			reached := make(chan bool)
			u := up(t, serve(t, func(p *peer) {
				head, _ := p.head()
				_, _ = io.ReadFull(p.body(head), make([]byte, 3))
			}), serve(t, func(p *peer) {
				head, _ := p.head()
				r := p.body(head)
				_, _ = io.ReadFull(r, make([]byte, 3))
				close(reached)
				rest, err := io.ReadAll(r)
				if err == nil {
					p.ok(string(rest))
				}
			}))
			go func() {
				<-reached
				body.pieces <- "two"
				body.pieces <- "six"
				close(body.pieces)
			}()
			c := call(t, "PUT")
			c.Body, c.Length = body, length
			if got := mustDo(t, u, c); got != "twosix" {
				t.Fatal(got)
			}
		})
	}
}
