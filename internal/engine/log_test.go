package engine

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/plugin"
)

// logged is what the plugin log-all sees in its Log phase.
type logged struct {
	mu    sync.Mutex
	lines []string
}

// seen waits for n lines and returns them.
func (l *logged) seen(t *testing.T, n int) []string {
	t.Helper()
	for range 1000 {
		l.mu.Lock()
		got := append([]string(nil), l.lines...)
		l.mu.Unlock()
		if len(got) >= n {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d log phases ran, want %d", len(l.lines), n)
	return nil
}

type bodyCopy struct{ b []byte }

func (c *bodyCopy) See(p []byte) { c.b = append(c.b, p...) }

// plugin is a plugin that notes what its Log phase knows. With buffer, another
// plugin has asked for the body before.
func (l *logged) plugin() plugin.Spec {
	type conf struct {
		Buffer  bool   `json:"buffer"`
		Replace string `json:"replace"`
	}
	return plugin.Define(plugin.Meta{Name: "log-all", Priority: 2}, func(c *conf, env plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{
			Access: func(r *plugin.Ctx) *plugin.Reply {
				if c.Buffer {
					_, _ = r.Buffer.Body(1 << 20)
				}
				if c.Replace != "" {
					r.To.Body = []byte(c.Replace)
				}
				b := new(bodyCopy)
				r.SetState(l, b)
				r.TapBody(b)
				return nil
			},
			Log: func(r *plugin.Ctx) {
				var text strings.Builder
				fmt.Fprintf(&text, "%d %s received=%d", r.Sent.Status, r.Sent.Source, r.Sent.Received)
				if s, ok := r.State(l).(*bodyCopy); ok {
					fmt.Fprintf(&text, " body=%s", s.b)
				}
				v, _ := r.Response.Header.Get("X-Up")
				fmt.Fprintf(&text, " x-up=%s tries=%d", v, len(r.Sent.Tries))
				for _, try := range r.Sent.Tries {
					if try.Total <= 0 || try.Total < try.Header {
						fmt.Fprintf(&text, " total=%v", try.Total)
					}
				}
				if strings.HasPrefix(r.Sent.Node, "127.0.0.1:") {
					text.WriteString(" node")
				}
				l.mu.Lock()
				l.lines = append(l.lines, text.String())
				l.mu.Unlock()
			},
		}, nil
	})
}

// fixedBodies answers every request, whose body it reads, with a constant.
func fixedBodies(t testing.TB, answer string) *origin {
	return serve(t, func(_ *origin, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, answer)
		}
	})
}

// TestLogSees: the Log phase sees the request's body as it went upstream, how
// much was received, and the head of the answer.
func TestLogSees(t *testing.T) {
	var l logged
	answer := "HTTP/1.1 200 OK\r\nX-Up: value\r\nContent-Length: 2\r\n\r\nhi"
	up := fixedBodies(t, answer)
	g := startWith(t, nil, l.plugin())
	g.put(
		"routes/plain", route("/plain", up.addr, `,"plugins":{"log-all":{}}`),
		"routes/buffered", route("/buffered", up.addr, `,"plugins":{"log-all":{"buffer":true}}`),
		"routes/replaced", route("/replaced", up.addr, `,"plugins":{"log-all":{"replace":"other"}}`),
	)
	big := strings.Repeat("0123456789", 20_000)
	for i, c := range []struct{ request, want string }{
		{"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n", " body="},
		{"POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", " body=hello"},
		{"POST /plain HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", " body=abcde"},
		{"POST /buffered HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", " body=hello"},
		{"POST /replaced HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", " body=other"},
		{fmt.Sprintf("PUT /plain HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(big), big), " body=" + big},
		{"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "no route"},
		{"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n", " body="},
	} {
		conn := g.dial()
		conn.send("%s", c.request)
		conn.answer("GET")
		if c.want == "no route" {
			continue
		}
		want := fmt.Sprintf("200 upstream received=%d%s x-up=value tries=1 node", len(c.request), c.want)
		n := i + 1
		if i > 6 {
			n--
		}
		if got := l.seen(t, n)[n-1]; got != want {
			t.Errorf("%.40q: got %.200s\nwant %.200s", c.request, got, want)
		}
	}
}

// TestLogPipelined: what belongs to the next request does not count.
func TestLogPipelined(t *testing.T) {
	var l logged
	up := fixedBodies(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	g := startWith(t, nil, l.plugin())
	g.put("routes/1", route("/*", up.addr, `,"plugins":{"log-all":{}}`))
	one := "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	two := "GET /bcd HTTP/1.1\r\nHost: a\r\n\r\n"
	conn := g.dial()
	conn.send("%s%s%s", one, two, one)
	for range 3 {
		conn.answer("GET")
	}
	for i, line := range l.seen(t, 3) {
		if want := fmt.Sprintf(" received=%d ", len([]string{one, two, one}[i])); !strings.Contains(line, want) {
			t.Errorf("request %d: %s, want%s", i, line, want)
		}
	}
}
