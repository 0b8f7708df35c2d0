package upstream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/wire"
)

// zeros is an endless body that is never at hand.
type zeros struct{ read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.read.Add(int64(len(p)))
	return len(p), nil
}

const large = 100 << 20

// The node answers at once and reads on; all of it arrives.
func TestEarlyResponse(t *testing.T) {
	for _, length := range []int64{large, wire.Chunked} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			received := make(chan int64, 1)
			answered := make(chan bool)
			u := up(t, serve(t, func(p *peer) {
				for range 2 {
					head, err := p.head()
					if err != nil {
						return
					}
					p.ok("early")
					<-answered
					n, err := io.Copy(io.Discard, p.body(head))
					if err != nil {
						n = -1
					}
					received <- n
				}
			}))
			c := call(t, "POST")
			c.Length = length
			c.Body = &zeros{}
			if length == wire.Chunked {
				c.Body = io.LimitReader(c.Body, large)
			}
			if err := u.RoundTrip(c); err != nil {
				t.Fatal(err)
			}
			if body, err := readAll(c); body != "early" || err != nil {
				t.Fatal(body, err)
			}
			close(answered)
			if err := c.Upload(); err != nil {
				t.Fatal(err)
			}
			if n := <-received; n != large {
				t.Fatal(n)
			}
			c.Finish()
			if u.env.Pools.Idle() != 1 {
				t.Fatal("a clean connection was not kept")
			}
		})
	}
}

// The node answers and closes while the client is still sending.
func TestEarlyResponseClose(t *testing.T) {
	for _, method := range []string{"POST", "PUT"} {
		t.Run(method, func(t *testing.T) {
			u := up(t, serve(t, func(p *peer) {
				p.skipHead()
				p.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nstop")
				time.Sleep(20 * time.Millisecond)
			}), serve(t, echo))
			c := call(t, method)
			body := &zeros{}
			c.Body, c.Length = body, large
			status, text, err := do(u, c)
			if status != 413 || text != "stop" || err != nil {
				t.Fatal(status, text, err)
			}
			if body.read.Load() >= large {
				t.Fatal("all was read")
			}
		})
	}
}

// The same, with the reset following the answer at once.
func TestEarlyResponseReset(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		p.skipHead()
		p.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nstop")
	}))
	for i := range 200 {
		c := call(t, "POST")
		c.Body, c.Length = &zeros{}, large
		if i%2 == 0 {
			c.Body = readyBody{c.Body}
		}
		if status, text, err := do(u, c); status != 413 || text != "stop" || err != nil {
			t.Fatal(status, text, err)
		}
	}
}

// Finish ends an upload that nobody wants any more, also one that waits for the
// client.
func TestFinishCutsUpload(t *testing.T) {
	cut := make(chan error, 1)
	u := up(t, serve(t, func(p *peer) {
		head, _ := p.head()
		p.ok("early")
		_, err := io.Copy(io.Discard, p.body(head))
		cut <- err
	}))
	c := call(t, "POST")
	body := newTrickle()
	body.pieces <- "first"
	stopped := 0
	c.Body, c.Length, c.StopBody = body, wire.Chunked, func() { stopped++; close(body.stop) }
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the body is waited for", func() bool { return body.reads.Load() == 2 })
	if text, err := readAll(c); text != "early" || err != nil {
		t.Fatal(text, err)
	}
	c.Finish()
	if err := <-cut; !errors.Is(err, io.ErrUnexpectedEOF) || stopped != 1 {
		t.Fatal(err, stopped)
	}
	if u.env.Pools.Idle() != 0 {
		t.Fatal("kept")
	}
}

// A body that breaks off or breaks the grammar never arrives as a complete one.
func TestBadBody(t *testing.T) {
	reset := errors.New("reset by the client")
	for _, tc := range []struct {
		name   string
		length int64
		pieces []string
		err    error
		want   error
	}{
		{"malformed", wire.Chunked, []string{"some"}, wire.ErrMalformed, wire.ErrMalformed},
		{"malformed at once", wire.Chunked, nil, wire.ErrMalformed, wire.ErrMalformed},
		{"failed", 10, []string{"some"}, reset, reset},
		{"short", 10, []string{"some"}, nil, io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ended := make(chan error, 1)
			second := atomic.Bool{}
			u := up(t, serve(t, func(p *peer) {
				head, _ := p.head()
				_, err := io.Copy(io.Discard, p.body(head))
				ended <- err
			}), serve(t, func(*peer) { second.Store(true) }))
			c := call(t, "PUT")
			body := newTrickle()
			body.err = tc.err
			for _, s := range tc.pieces {
				body.pieces <- s
			}
			close(body.pieces)
			c.Body, c.Length = body, tc.length
			_, _, err := do(u, c)
			var e *Error
			if !errors.As(err, &e) || e.Kind != ClientBody || e.Status() != 400 || !errors.Is(err, tc.want) {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal("the node saw", err)
			}
			if second.Load() || u.env.Pools.Idle() != 0 {
				t.Fatal("tried again, or kept")
			}
		})
	}
}

// readyBody is at hand until it fails.
type readyBody struct{ io.Reader }

func (readyBody) Ready() bool { return true }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What is found malformed before anything is sent reaches no node.
func TestBadBodyAtHand(t *testing.T) {
	var reached atomic.Bool
	u := up(t, serve(t, func(*peer) { reached.Store(true) }))
	c := call(t, "POST")
	c.Length = wire.Chunked
	c.Body = readyBody{io.MultiReader(strings.NewReader("some"), failing{wire.ErrMalformed})}
	if _, _, err := do(u, c); kindOf(err) != ClientBody || reached.Load() {
		t.Fatal(err)
	}
}

// A body that breaks off after the response began ends the response too.
func TestBadBodyAfterResponse(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		head, _ := p.head()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
		_, _ = io.Copy(p.Conn, p.body(head))
	}))
	c := call(t, "POST")
	defer c.Finish()
	body := newTrickle()
	body.err = wire.ErrMalformed
	body.pieces <- "some"
	c.Body, c.Length = body, wire.Chunked
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(readerFunc(c.ReadBody), buf); err != nil || string(buf) != "some" {
		t.Fatal(err)
	}
	close(body.pieces)
	if _, err := readAll(c); kindOf(err) != ClientBody {
		t.Fatal(err)
	}
	if err := c.Upload(); kindOf(err) != ClientBody {
		t.Fatal(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Request and response flow at the same time.
func TestFullDuplex(t *testing.T) {
	u := up(t, serve(t, func(p *peer) {
		head, _ := p.head()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		r := p.body(head)
		buf := make([]byte, 100)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				p.say("%x\r\n%s\r\n", n, buf[:n])
			}
			if err != nil {
				break
			}
		}
		p.say("0\r\n\r\n")
		p.gone()
	}))
	c := call(t, "POST")
	body := newTrickle()
	c.Body, c.Length = body, wire.Chunked
	if err := u.RoundTrip(c); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	for i := range 50 {
		piece := fmt.Sprintf("%04d", i)
		body.pieces <- piece
		if _, err := io.ReadFull(readerFunc(c.ReadBody), buf); err != nil || string(buf) != piece {
			t.Fatal(string(buf), err)
		}
	}
	close(body.pieces)
	if rest, err := readAll(c); rest != "" || err != nil {
		t.Fatal(rest, err)
	}
	if err := c.Upload(); err != nil {
		t.Fatal(err)
	}
	c.Finish()
	if u.env.Pools.Idle() != 1 {
		t.Fatal("not kept")
	}
}

// The time for the answer runs from the end of the upload.
func TestSlowUpload(t *testing.T) {
	u := compile(t, &model.Upstream{Nodes: nodes(serve(t, echo)),
		Timeout: model.Timeout{Read: 20 * time.Millisecond}}, env(pools(t)))
	c := call(t, "POST")
	body := newTrickle()
	c.Body, c.Length = body, wire.Chunked
	go func() {
		for range 5 {
			time.Sleep(20 * time.Millisecond)
			body.pieces <- "x"
		}
		close(body.pieces)
	}()
	if got := mustDo(t, u, c); !strings.HasSuffix(got, "\r\n\r\nxxxxx") {
		t.Fatal(got)
	}
}

func TestSlowAnswerAfterUpload(t *testing.T) {
	u := compile(t, &model.Upstream{Nodes: nodes(serve(t, hangs)),
		Timeout: model.Timeout{Read: 20 * time.Millisecond}}, env(pools(t)))
	c := call(t, "POST")
	c.Body, c.Length = io.LimitReader(&zeros{}, 1<<20), wire.Chunked
	if _, _, err := do(u, c); kindOf(err) != Timeout {
		t.Fatal(err)
	}
}

// A node that reads nothing runs into the send time-out.
func TestStuckNode(t *testing.T) {
	release := make(chan bool)
	defer close(release)
	u := compile(t, &model.Upstream{Nodes: nodes(serve(t, func(*peer) { <-release })),
		Timeout: model.Timeout{Send: 50 * time.Millisecond}}, env(pools(t)))
	for _, body := range []io.Reader{&zeros{}, readyBody{&zeros{}}} {
		c := call(t, "POST")
		c.Body, c.Length = body, large
		_, _, err := do(u, c)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Timeout || e.Status() != 504 {
			t.Fatal(err)
		}
	}
}
