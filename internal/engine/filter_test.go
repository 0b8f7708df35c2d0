package engine

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"weir/internal/plugin"
)

// seen collects what filters saw of bodies; each ends with a dot.
type seen struct {
	sync.Mutex
	all strings.Builder
}

func (s *seen) take() string {
	s.Lock()
	defer s.Unlock()
	defer s.all.Reset()
	return s.all.String()
}

// A look is a filter that watches bodies, or ends them with its own.
type look struct {
	to      *seen
	watches bool
	own     string
}

func (l *look) Watches() bool      { return l.watches }
func (l *look) Ended() bool        { return l.own != "" }
func (l *look) Size(n int64) int64 { return n }

func (l *look) Write(p []byte, last bool) []byte {
	l.to.Lock()
	defer l.to.Unlock()
	l.to.all.Write(p)
	if last {
		l.to.all.WriteByte('.')
	}
	if l.own != "" {
		return []byte(l.own)
	}
	return p
}

type lookConf struct {
	Watches bool   `json:"watches" doc:"Watch bodies."`
	Own     string `json:"own" doc:"End bodies with this."`
	Status  int    `json:"status" doc:"Change the status."`
	Method  string `json:"method" doc:"Ask upstream so."`
}

func lookPlugin(to *seen) plugin.Spec {
	return plugin.Define(plugin.Meta{Name: "look", Doc: "Test plugin."}, func(c *lookConf, _ plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{
			Access: func(x *plugin.Ctx) *plugin.Reply {
				x.To.Method = c.Method
				return nil
			},
			Header: func(x *plugin.Ctx) {
				if c.Status != 0 {
					x.Response.Status, x.Response.Reason = c.Status, ""
				}
			},
			Body: func(*plugin.Ctx) plugin.BodyFilter { return &look{to, c.Watches, c.Own} },
		}, nil
	})
}

// TestWatched: a filter may see a body that the client does not get, and may end
// one that the upstream has not.
func TestWatched(t *testing.T) {
	// The body comes later than the head, so that it must be waited for. Some more
	// never comes, if asked for: only who ends the body gets an answer.
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			h, err := o.head(r)
			if err != nil {
				return
			}
			length := "6"
			if strings.Contains(h, "X-Endless") {
				length = "1000"
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+length+"\r\n\r\n")
			if strings.HasPrefix(h, "HEAD") {
				continue
			}
			io.WriteString(c, "abc")
			io.WriteString(c, "def")
		}
	})
	to := new(seen)
	g := startWith(t, nil, lookPlugin(to))
	g.put(
		"routes/1", route("/watch", up.addr, `,"plugins":{"look":{"watches":true,"method":"GET"}}`),
		"routes/2", route("/blind", up.addr, `,"plugins":{"look":{"method":"GET"}}`),
		"routes/3", route("/head", up.addr, `,"plugins":{"look":{"watches":true}}`),
		"routes/4", route("/unchanged", up.addr, `,"plugins":{"look":{"watches":true,"status":304}}`),
		"routes/5", route("/own", up.addr, `,"plugins":{"look":{"own":"mine","status":413}}`),
	)
	for _, c := range []struct {
		request, body string
		status        int
		seen          string // the end of what the filter saw
	}{
		{"GET /watch", "abcdef", 200, "abcdef."},
		{"HEAD /watch", "", 200, "abcdef."},
		{"HEAD /blind", "", 200, "."},
		{"HEAD /head", "", 200, "."},
		{"GET /unchanged", "", 304, "abcdef."},
		{"GET /own", "mine", 413, "."},
	} {
		conn := g.dial()
		for range 2 {
			method, path, _ := strings.Cut(c.request, " ")
			endless := ""
			if path == "/own" {
				endless = "X-Endless: 1\r\n"
			}
			conn.send("%s %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n", method, path, endless)
			r, body := conn.answer(method)
			if body != c.body || r.StatusCode != c.status {
				t.Errorf("%s: %d %q", c.request, r.StatusCode, body)
			}
			if path == "/own" && r.ContentLength != 4 {
				t.Errorf("%s: length %d", c.request, r.ContentLength)
			}
			conn.send("GET /none HTTP/1.1\r\nHost: a.test\r\n\r\n") // answered when the exchange before is over
			conn.answer("GET")
			if got := to.take(); !strings.HasSuffix(got, c.seen) || strings.Count(got, ".") != 1 || c.seen == "abcdef." && got != c.seen {
				t.Errorf("%s: the filter saw %q", c.request, got)
			}
		}
	}
}
