package engine

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that takes nothing of its answer is given up after the time-out, and
// the upstream's connection with it.
func TestSlowReader(t *testing.T) {
	g := start(t, func(c *Config) { c.SendTimeout = 200 * time.Millisecond })
	ended := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		o.head(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		for piece := make([]byte, 64<<10); ; {
			if _, err := c.Write(piece); err != nil {
				close(ended)
				return
			}
		}
	})
	g.put("routes/1", route("/a", up.addr, ""))
	c := g.dial()
	c.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the upstream's connection lives on")
	}
}

// What upstreams do wrong, and what the client gets: an error of the gateway as
// long as nothing was sent, then an answer that shows that it is not whole. Nothing
// of one answer gets into the next.
func TestUpstreamFaults(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, tc := range []struct {
		name   string
		sends  string // then the connection ends, unless hold
		hold   bool
		status int
		body   string // of a whole answer
		cut    bool   // the answer must not seem whole
	}{
		{name: "closes at once", status: 502},
		{name: "closes in the head", sends: head + "Content-Le", status: 502},
		{name: "closes after an interim answer", sends: "HTTP/1.1 103 Early Hints\r\n\r\n", status: 502},
		{name: "stalls", hold: true, status: 504},
		{name: "stalls in the head", sends: head, hold: true, status: 504},
		{name: "is not HTTP", sends: "220 mail.test ESMTP\r\n\r\n", status: 502},
		{name: "shorter than it says", sends: head + "Content-Length: 10\r\n\r\nhello", status: 200, cut: true},
		{name: "stalls in the body", sends: head + "Content-Length: 10\r\n\r\nhello", hold: true, status: 200, cut: true},
		{name: "longer than it says", sends: head + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", status: 200, body: "hello"},
		{name: "two lengths", sends: head + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello", status: 502},
		{name: "a length and chunks", sends: head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 502},
		{name: "a negative length", sends: head + "Content-Length: -1\r\n\r\n", status: 502},
		{name: "a length that is none", sends: head + "Content-Length: 5x\r\n\r\nhello", status: 502},
		{name: "ends within a chunk", sends: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", status: 200, cut: true},
		{name: "ends before the last chunk", sends: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", status: 200, cut: true},
		{name: "a chunk that is none", sends: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", status: 200, cut: true},
		{name: "sends after the last chunk", sends: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", status: 200, body: "hello"},
		{name: "sends a body with 204", sends: "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", status: 204},
		{name: "a head without an end", sends: head + "X-A: " + strings.Repeat("a", 1<<20), status: 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := start(t, nil)
			done := make(chan struct{})
			defer close(done)
			bad := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
				if h, err := o.head(r); err != nil || strings.Contains(h, "/good") {
					io.WriteString(c, head+"Content-Length: 4\r\n\r\ngood")
					return
				}
				io.WriteString(c, tc.sends)
				if tc.hold {
					<-done
				}
			})
			more := `,"timeout":{"connect":5,"send":5,"read":0.2}`
			g.put("routes/1", route("/bad", bad.addr, more), "routes/2", route("/good", bad.addr, more))
			c := g.dial()
			c.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n")
			r, err := http.ReadResponse(c.r, nil)
			for err == nil && r.StatusCode == 103 {
				r, err = http.ReadResponse(c.r, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r.Body)
			if r.StatusCode != tc.status || tc.cut != (err != nil) {
				t.Errorf("%d, %q, %v", r.StatusCode, b, err)
			}
			if tc.body != "" && string(b) != tc.body {
				t.Errorf("body %q", b)
			}
			if strings.Contains(string(b), "evil") {
				t.Errorf("more than the answer: %q", b)
			}
			if tc.cut {
				if b, err := io.ReadAll(c.r); err == nil && len(b) > 0 {
					t.Errorf("after a cut answer: %q", b)
				}
				c = g.dial()
			}
			c.send("GET /good HTTP/1.1\r\nHost: a\r\n\r\n")
			if r, body := c.answer("GET"); r.StatusCode != 200 || body != "good" {
				t.Errorf("the next answer: %d %q", r.StatusCode, body)
			}
		})
	}
}

// An upstream that answers while the client still sends, and then closes: the
// answer arrives whole, whatever becomes of the rest of the body.
func TestAnswersEarlyAndCloses(t *testing.T) {
	g := start(t, nil)
	for _, reads := range []int{0, 1000} {
		up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
			o.head(r)
			io.CopyN(io.Discard, r, int64(reads))
			io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		})
		g.put(fmt.Sprint("routes/", reads), route(fmt.Sprint("/", reads), up.addr, ""))
		c := g.dial()
		go func() { // the rest of it need not arrive
			fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", reads, 8<<20)
			io.CopyN(c, zero{}, 8<<20)
		}()
		if r, body := c.answer("POST"); r.StatusCode != 403 || body != "no" {
			t.Errorf("after %d bytes: %d %q", reads, r.StatusCode, body)
		}
		c.Close()
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }
