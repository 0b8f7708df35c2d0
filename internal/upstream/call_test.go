package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/wire"
)

func TestEarly(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		p.skip()
		p.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
		p.say("HTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\n")
		p.ok("final")
		p.gone()
	}))
	c := call(t, "GET")
	var seen []string
	c.Early = func(r *wire.Response) error {
		link, _ := r.Header.Get("Link")
		seen = append(seen, fmt.Sprint(r.Status, link))
		return nil
	}
	if body := mustDo(t, u, c); body != "final" || strings.Join(seen, ",") != "100,103a,103b" {
		t.Fatal(body, seen)
	}
}

func TestEndlessEarly(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		p.skip()
		p.say("%s", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 2*maxEarly))
		p.gone()
	}))
	if _, _, err := do(u, call(t, "GET")); kindOf(err) != Malformed {
		t.Fatal(err)
	}
}

func TestUpgrade(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		p.skip()
		p.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello")
		p.gone()
	}))
	c := call(t, "GET")
	c.Extra = []byte("Connection: upgrade\r\nUpgrade: x\r\n")
	defer c.Finish()
	if err := u.RoundTrip(c); err != nil || c.Response.Status != 101 {
		t.Fatal(err)
	}
}

func TestTries(t *testing.T) {
	u := up(t, serve(t, echo), refusing(t))
	rotation(u).next.Store(1)
	c := call(t, "GET")
	mustDo(t, u, c)
	if len(c.Tries) != 2 {
		t.Fatalf("%+v", c.Tries)
	}
	bad, good := c.Tries[0], c.Tries[1]
	if kindOf(bad.Err) != Dial || bad.Status != 0 || bad.Total <= 0 || bad.Header != 0 || bad.Addr != u.Nodes()[1] {
		t.Fatalf("%+v", bad)
	}
	if good.Err != nil || good.Status != 200 || good.Connect <= 0 || good.Header < good.Connect ||
		good.Total < good.Header || good.Addr != u.Nodes()[0] {
		t.Fatalf("%+v", good)
	}
	rotation(u).next.Store(0)
	c.Reset()
	c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	mustDo(t, u, c)
	if len(c.Tries) != 1 || c.Tries[0].Connect != 0 {
		t.Fatalf("%+v", c.Tries)
	}
}

// An Abort ends what the Call waits for, and what it does later.
func TestAbort(t *testing.T) {
	blocked := make(chan bool, 1)
	e := env(pools(t))
	e.Names = names(t, func(ctx context.Context, _ string) (resolve.Answer, error) {
		blocked <- true
		<-ctx.Done()
		return resolve.Answer{}, ctx.Err()
	})
	unresolved := compile(t, &model.Upstream{Nodes: nodes(model.Node{Host: "slow", Weight: 1})}, e)
	silent := up(t, serve(t, func(p *peer) { p.skip(); blocked <- true; p.gone() }))
	stalled := up(t, serve(t, func(p *peer) {
		p.skip()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		p.gone()
	}))
	reading := func(u *Upstream, c *Call) error {
		if err := u.RoundTrip(c); err != nil {
			return err
		}
		blocked <- true
		_, err := readAll(c)
		return err
	}
	for _, tc := range []struct {
		name string
		do   func(*Call) error
	}{
		{"resolving", unresolved.RoundTrip},
		{"waiting for the answer", silent.RoundTrip},
		{"reading the body", func(c *Call) error { return reading(stalled, c) }},
		{"uploading", func(c *Call) error {
			body := newTrickle()
			c.Body, c.Length, c.StopBody = body, 10, func() { close(body.stop) }
			u := up(t, serve(t, func(p *peer) { p.skipHead(); p.ok(""); blocked <- true; p.gone() }))
			if err := u.RoundTrip(c); err != nil {
				return err
			}
			return c.Upload()
		}},
		{"uploading, no answer", func(c *Call) error {
			body := newTrickle()
			c.Body, c.Length, c.StopBody = body, 10, func() { close(body.stop) }
			u := up(t, serve(t, func(p *peer) { p.skipHead(); blocked <- true; p.gone() }))
			return u.RoundTrip(c)
		}},
		{"before", func(c *Call) error { c.Abort(); blocked <- true; return silent.RoundTrip(c) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := call(t, "PUT")
			result := make(chan error)
			go func() { result <- tc.do(c) }()
			<-blocked
			c.Abort()
			err := <-result
			c.Finish()
			var e *Error
			if !errors.As(err, &e) || e.Kind != Aborted || e.Status() != 499 || len(c.Tries) > 1 {
				t.Fatal(err, c.Tries)
			}
		})
	}
	if silent.env.Pools.Idle()+stalled.env.Pools.Idle() != 0 {
		t.Fatal("an aborted connection was kept")
	}
}

// An Abort that comes too late hits nobody.
func TestAbortAfterFinish(t *testing.T) {
	u := up(t, serve(t, echo))
	c := call(t, "GET")
	mustDo(t, u, c)
	c.Abort()
	mustDo(t, u, call(t, "GET"))
	if _, _, err := do(u, c); kindOf(err) != Aborted {
		t.Fatal(err)
	}
	c.Reset()
	c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	mustDo(t, u, c)
}

func TestTimeouts(t *testing.T) {
	e := env(pools(t))
	e.Names = names(t, func(ctx context.Context, _ string) (resolve.Answer, error) {
		<-ctx.Done()
		return resolve.Answer{}, ctx.Err()
	})
	for _, tc := range []struct {
		name string
		node model.Node
	}{
		{"resolving", model.Node{Host: "slow"}},
		{"no head", serve(t, hangs)},
		{"no body", serve(t, func(p *peer) {
			p.skip()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nstart")
			p.gone()
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := compile(t, &model.Upstream{Nodes: nodes(tc.node),
				Timeout: model.Timeout{Connect: 20 * time.Millisecond, Read: 20 * time.Millisecond}}, e)
			_, _, err := do(u, call(t, "GET"))
			var e *Error
			if !errors.As(err, &e) || e.Kind != Timeout || e.Status() != 504 {
				t.Fatal(err)
			}
		})
	}
}

// A kept connection takes the time-outs of each request, shorter or longer.
func TestTimeoutPerRequest(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		for {
			head, _, err := p.request()
			if err != nil {
				return
			}
			if strings.HasPrefix(head, "PUT") {
				time.Sleep(60 * time.Millisecond)
			}
			if !strings.HasPrefix(head, "DELETE") {
				p.ok("")
			}
		}
	}))
	c := call(t, "GET")
	c.Timeout = &model.Timeout{Read: 10 * time.Millisecond}
	mustDo(t, u, c)
	time.Sleep(20 * time.Millisecond) // the deadline passes while it is idle
	mustDo(t, u, call(t, "PUT"))
	c = call(t, "DELETE")
	c.Timeout = &model.Timeout{Read: 10 * time.Millisecond}
	if _, _, err := do(u, c); kindOf(err) != Timeout {
		t.Fatal(err)
	}
}

func TestDue(t *testing.T) {
	now := time.Now()
	const s = time.Second
	for _, tc := range []struct {
		left, timeout time.Duration
		due           bool
	}{
		{60 * s, 60 * s, false}, {61 * s, 60 * s, false}, {60*s - 1, 60 * s, true}, {61*s + 1, 60 * s, true},
		{-1, s, true}, {s + 100*time.Millisecond, s, false}, {s + 101*time.Millisecond, s, true},
	} {
		if due(now.Add(tc.left), now, tc.timeout) != tc.due {
			t.Error(tc)
		}
	}
	if !due(time.Time{}, now, s) {
		t.Error("no deadline is due")
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Kind: Dial, Addr: "a:1", Err: errors.New("refused")}
	if e.Error() != "upstream a:1: connect failed: refused" || (&Error{Kind: NoNodes}).Error() != "upstream: no valid upstream node" {
		t.Fatal(e)
	}
}

// Between Stop and Finish the answer's head is still there, and so is the
// connection: it goes back only then.
func TestStop(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		for {
			if _, err := p.head(); err != nil {
				return
			}
			p.ok("hello")
		}
	}))
	c := call(t, "GET")
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	c.Skip(len(c.Buffered()))
	c.Stop()
	c.Abort() // too late to do anything
	if c.Tries[0].Total <= 0 || c.Response == nil || c.Response.Status != 200 {
		t.Fatalf("%+v, response %+v", c.Tries, c.Response)
	}
	other := call(t, "GET")
	if mustDo(t, u, other); other.reused {
		t.Error("the connection was given away before the end")
	}
	c.Finish()
	c.Finish()
	again := call(t, "GET")
	if mustDo(t, u, again); !again.reused || c.Response != nil {
		t.Error("the connection did not go back")
	}
}
