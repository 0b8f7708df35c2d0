package engine

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
)

// expectPlugin leaves it to the upstream whether it wants a body.
var expectPlugin = plugin.Define(plugin.Meta{Name: "expect"}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		c.To.Expect = true
		return nil
	}}, nil
})

// judge answers request heads with a text and, if that is no final answer, the
// five bytes that follow.
func judge(t *testing.T, text string) *origin {
	return serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			if _, err := o.head(r); err != nil {
				return
			}
			io.WriteString(c, text)
			if strings.Contains(text, "Content-Length") {
				continue
			}
			body := make([]byte, 5)
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s", body)
		}
	})
}

// TestExpectPasses is field case 171: the upstream decides.
func TestExpectPasses(t *testing.T) {
	const expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	run := func(t *testing.T, text string) (*client, *origin) {
		o := judge(t, text)
		g := startWith(t, nil, expectPlugin)
		g.put("routes/1", route("/", o.addr, `,"plugins":{"expect":{}}`))
		return g.dial(), o
	}
	expected := func(t *testing.T, o *origin, want int) {
		t.Helper()
		heads := o.heads()
		if len(heads) != 1 || strings.Count(heads[0], "Expect: 100-continue\r\n") != want {
			t.Errorf("%q", heads)
		}
	}
	t.Run("refused", func(t *testing.T) {
		c, o := run(t, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
		c.send(expecting)
		if head, _ := readHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 417 ") {
			t.Errorf("%q", head)
		}
		expected(t, o, 1)
	})
	t.Run("wanted", func(t *testing.T) {
		c, o := run(t, "HTTP/1.1 100 Continue\r\n\r\n")
		c.send(expecting)
		if head, _ := readHead(c.r); head != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("%q", head)
		}
		c.send("hello")
		if r, body := c.answer("POST"); r.StatusCode != 200 || body != "hello" {
			t.Errorf("%d %q", r.StatusCode, body)
		}
		expected(t, o, 1)
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagain")
		// The origin says 100 unasked, which ends at the gateway.
		if r, body := c.answer("POST"); r.StatusCode != 200 || body != "again" {
			t.Errorf("%d %q", r.StatusCode, body)
		}
	})
	t.Run("ignored", func(t *testing.T) {
		c, o := run(t, "")
		c.send(expecting + "hello")
		if r, body := c.answer("POST"); r.StatusCode != 200 || body != "hello" {
			t.Errorf("%d %q", r.StatusCode, body)
		}
		expected(t, o, 1)
	})
	t.Run("not asked", func(t *testing.T) {
		c, o := run(t, "")
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		if r, body := c.answer("POST"); r.StatusCode != 200 || body != "hello" {
			t.Errorf("%d %q", r.StatusCode, body)
		}
		expected(t, o, 0)
	})
	t.Run("client leaves", func(t *testing.T) {
		c, o := run(t, "")
		c.send(expecting)
		for len(o.heads()) == 0 {
			time.Sleep(time.Millisecond)
		}
		c.Close()
	})
	t.Run("dead", func(t *testing.T) {
		o := serve(t, func(_ *origin, c net.Conn, r *bufio.Reader) { r.ReadString('\n') })
		g := startWith(t, nil, expectPlugin)
		g.put("routes/1", route("/", o.addr, `,"plugins":{"expect":{}}`))
		c := g.dial()
		c.send(expecting)
		if head, _ := readHead(c.r); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
			t.Errorf("%q", head)
		}
	})
}
