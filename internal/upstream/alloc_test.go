//go:build !race

package upstream

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/wire"
)

// fixed answers every 4 KiB or less that it reads with the same bytes, which
// costs the node no allocation.
func fixed(p *peer) {
	response := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")
	b := make([]byte, 4096)
	for {
		if _, err := p.Read(b); err != nil {
			return
		}
		if _, err := p.Write(response); err != nil {
			return
		}
	}
}

// exchange is what an engine does for one request.
func exchange(tb testing.TB, u *Upstream, c *Call, buf []byte) {
	if err := u.RoundTrip(c); err != nil {
		tb.Fatal(err)
	}
	for !c.BodyDone() {
		if _, err := c.ReadBody(buf); err != nil && err != io.EOF {
			tb.Fatal(err)
		}
	}
	c.Finish()
}

// bytesBody is a body that is read again for every request.
type bytesBody struct{ strings.Reader }

func TestAllocations(t *testing.T) {
	u := up(t, serve(t, fixed), serve(t, fixed))
	req := request(t, "GET /p?q=1 HTTP/1.1\r\nHost: client.example\r\nX-A: 1\r\n\r\n")
	c, buf := &Call{}, make([]byte, 4096)
	body := &bytesBody{}
	for _, tc := range []struct {
		name string
		set  func()
	}{
		{"GET", func() {}},
		{"POST", func() {
			body.Reset("some text")
			c.Method, c.Body, c.Length = "POST", body, 9
		}},
		{"POST chunked", func() {
			body.Reset("some text")
			c.Method, c.Body, c.Length = "POST", body, wire.Chunked
		}},
	} {
		n := testing.AllocsPerRun(200, func() {
			c.Reset()
			c.Request = req
			tc.set()
			exchange(t, u, c, buf)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}

// BenchmarkGET is one GET on a kept connection; BenchmarkEcho writes and reads
// as many bytes on a bare connection to the same node, which is the floor.
func BenchmarkGET(b *testing.B) {
	p := NewPools()
	defer p.Close()
	u, err := Compile(&model.Upstream{Nodes: nodes(serve(b, fixed))}, env(p))
	if err != nil {
		b.Fatal(err)
	}
	defer u.Close()
	req := request(b, "GET /p?q=1 HTTP/1.1\r\nHost: client.example\r\nX-A: 1\r\n\r\n")
	c, buf := &Call{}, make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		c.Reset()
		c.Request = req
		exchange(b, u, c, buf)
	}
}

func BenchmarkEcho(b *testing.B) {
	n := serve(b, fixed)
	c, err := net.Dial("tcp", net.JoinHostPort(n.Host, strconv.Itoa(n.Port)))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	head, buf := []byte("GET /p?q=1 HTTP/1.1\r\nHost: client.example\r\nX-A: 1\r\n\r\n"), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(head); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
