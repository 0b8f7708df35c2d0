package upstream

import (
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/wire"
)

// Aborts at any moment hit the call they are meant for and no other.
func TestAbortAnytime(t *testing.T) {
	u := up(t, serve(t, echo))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			c := &Call{}
			for range 500 {
				c.Reset()
				c.Request = request(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if _, _, err := do(u, c); err != nil {
					t.Error("not aborted:", err)
				}
			}
		})
		wg.Go(func() {
			c := &Call{}
			for range 500 {
				c.Reset()
				c.Request = request(t, "PUT / HTTP/1.1\r\nHost: x\r\n\r\n")
				body := newTrickle()
				body.pieces <- "body"
				close(body.pieces)
				c.Body, c.Length = body, wire.Chunked
				done := make(chan bool)
				go func() {
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
					c.Abort()
					close(done)
				}()
				if _, _, err := do(u, c); err != nil && kindOf(err) != Aborted {
					t.Error(err)
				}
				<-done
			}
		})
	}
	wg.Wait()
}

// random is a body of random pieces with its checksum at the end, sometimes at
// hand and sometimes not.
type random struct {
	left int
	sum  uint32
	tail string
	over bool
	rnd  *rand.Rand
}

func (b *random) Ready() bool { return b.rnd.IntN(3) > 0 }

func (b *random) Read(p []byte) (int, error) {
	if b.left == 0 && !b.over {
		b.tail, b.over = fmt.Sprintf("%08x", b.sum), true
	}
	if b.left == 0 {
		n := copy(p, b.tail)
		if b.tail = b.tail[n:]; b.tail == "" {
			return n, io.EOF
		}
		return n, nil
	}
	n := min(len(p), b.left, 1+b.rnd.IntN(20000))
	for i := range p[:n] {
		p[i] = byte(b.rnd.Uint32())
	}
	b.left -= n
	b.sum = crc32.Update(b.sum, crc32.IEEETable, p[:n])
	return n, nil
}

func valid(body string) bool {
	cut := len(body) - 8
	return cut >= 0 && fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body[:cut]))) == body[cut:]
}

// Nodes close at any byte. What arrives complete is right.
func TestUploadAnyhow(t *testing.T) {
	var wrong, answered atomic.Int32
	script := func(p *peer) {
		rnd := rand.New(rand.NewPCG(uint64(p.n), 7))
		for {
			head, err := p.head()
			if err != nil {
				return
			}
			body := p.body(head)
			if rnd.IntN(3) == 0 {
				_, _ = io.CopyN(io.Discard, body, rnd.Int64N(100_000))
				return
			}
			b, err := io.ReadAll(body)
			if err != nil {
				return
			}
			if !valid(string(b)) {
				wrong.Add(1)
			}
			if rnd.IntN(4) == 0 {
				return
			}
			p.ok("")
		}
	}
	u := up(t, serve(t, script), serve(t, script), serve(t, script))
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			c := &Call{}
			for range 200 {
				c.Reset()
				c.Request = request(t, "PUT / HTTP/1.1\r\nHost: x\r\n\r\n")
				size := rnd.IntN(1 << (4 + rnd.IntN(15)))
				c.Body = &random{left: size, rnd: rnd}
				if c.Length = wire.Chunked; rnd.IntN(2) == 0 {
					c.Length = int64(size) + 8
				}
				status, _, err := do(u, c)
				if k := kindOf(err); err != nil && k != Reset && k != Dial {
					t.Error(err)
				}
				if status == 200 {
					answered.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() > 0 || answered.Load() < 100 {
		t.Fatal(wrong.Load(), "wrong bodies,", answered.Load(), "of 600 answered")
	}
}

// A connection whose upload was done by the second goroutine is kept, however
// fast the node answers.
func TestUploadKeepsConnection(t *testing.T) {
	var k counted
	u := up(t, serve(t, k.echo))
	for range 300 {
		c := call(t, "POST")
		c.Body, c.Length = struct{ io.Reader }{strings.NewReader("body")}, 4
		c.StopBody = func() { t.Error("stopped") }
		mustDo(t, u, c)
	}
	if k.opened.Load() != 1 {
		t.Fatal(k.opened.Load(), "connections")
	}
}
