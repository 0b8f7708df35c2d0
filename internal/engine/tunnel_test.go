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

// switcher agrees to switch protocols and echoes what comes then.
func switcher(t *testing.T, answer string) *origin {
	return serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		head, err := o.head(r)
		if err != nil {
			return
		}
		if !strings.Contains(head, "\r\nUpgrade: websocket\r\n") {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
			return
		}
		io.WriteString(c, answer)
		io.Copy(c, r)
	})
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nTransfer-Encoding: chunked\r\n\r\nhello "

const upgrade = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\nfirst"

// open upgrades and checks what comes back.
func (g *gateway) open(t *testing.T, path string) *client {
	t.Helper()
	c := dial(t, g.addr)
	c.send(upgrade, path)
	head, err := readHead(c.r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HTTP/1.1 101 ", "\r\nConnection: upgrade\r\n", "\r\nUpgrade: websocket\r\n", "\r\nSec-WebSocket-Accept: x\r\n"} {
		if !strings.Contains(head, want) {
			t.Fatalf("no %q in %q", want, head)
		}
	}
	if strings.Contains(head, "chunked") { // field report 178
		t.Errorf("framing in %q", head)
	}
	c.expect(t, "hello first")
	return c
}

func (c *client) expect(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		t.Fatalf("%q %v, want %q", got, err, want)
	}
}

func TestWebsocket(t *testing.T) {
	up := switcher(t, switching)
	g := start(t, nil)
	g.put(
		"routes/1", route("/ws", up.addr, `,"enable_websocket":true`),
		"routes/2", route("/plain", up.addr, ""),
		"upstreams/u", fmt.Sprintf(`{"enable_websocket":true,"type":"roundrobin","nodes":{%q:1}}`, up.addr),
		"routes/3", `{"uri":"/upstream","upstream_id":"u"}`, // field report 102
		"services/s", `{"enable_websocket":true}`,
		"routes/4", `{"uri":"/service","service_id":"s","upstream_id":"u"}`,
	)
	for _, path := range []string{"/ws", "/upstream", "/service"} {
		t.Run(path, func(t *testing.T) {
			c := g.open(t, path)
			for _, s := range []string{"one", strings.Repeat("two", 100_000), "three"} {
				go c.send("%s", s)
				c.expect(t, s)
			}
			c.Close()
		})
	}
	c := g.dial()
	c.send(upgrade, "/plain")
	if r, body := c.answer("GET"); r.StatusCode != 200 || body != "plain" {
		t.Errorf("not allowed: %d %q", r.StatusCode, body)
	}
}

// Field reports 35 and 67: a tunnel survives what changes elsewhere, and its own
// route's end; what comes later goes the new way.
func TestTunnelSurvivesChanges(t *testing.T) {
	up, other := switcher(t, switching), switcher(t, strings.Replace(switching, "hello ", "other ", 1))
	g := start(t, nil)
	g.put("routes/1", route("/ws", up.addr, `,"enable_websocket":true,"plugins":{"probe":{}}`))
	c := g.open(t, "/ws")
	for i := range 100 {
		g.put("routes/2", route(fmt.Sprintf("/other%d", i), up.addr, ""))
		g.del("routes/2")
	}
	g.put("routes/1", route("/ws", other.addr, `,"enable_websocket":true,"plugins":{"probe":{}}`))
	time.Sleep(100 * time.Millisecond) // for what is retired to be closed
	c.send("still here")
	c.expect(t, "still here")
	d := g.dial()
	d.send(upgrade, "/ws")
	if _, err := readHead(d.r); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "other first")
	g.put("routes/1", route("/ws", up.addr, `,"status":0`))
	c.send("and here")
	c.expect(t, "and here")
	if r, _ := g.get("/ws"); r.StatusCode != 404 {
		t.Errorf("disabled: %d", r.StatusCode)
	}
}

// Field report 176: the read time-out ends a tunnel whose upstream is silent.
func TestTunnelTimeout(t *testing.T) {
	up := switcher(t, switching)
	g := start(t, nil)
	g.put("routes/1", route("/ws", up.addr, `,"enable_websocket":true,"timeout":{"connect":1,"send":1,"read":0.2}`))
	c := g.open(t, "/ws")
	for range 4 {
		time.Sleep(100 * time.Millisecond)
		c.send("ping")
		c.expect(t, "ping")
	}
	if b, err := io.ReadAll(c.r); err != nil || len(b) != 0 {
		t.Errorf("%q %v", b, err)
	}
}

// An upstream that closes ends the tunnel for the client, and the other way round.
func TestTunnelEnds(t *testing.T) {
	ended := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if head, _ := o.head(r); strings.Contains(head, "/bye") {
			io.WriteString(c, switching)
			return
		}
		io.WriteString(c, switching)
		io.Copy(io.Discard, r)
		close(ended)
	})
	g := start(t, nil)
	g.put("routes/1", route("/*", up.addr, `,"enable_websocket":true`))
	c := g.dial()
	c.send(upgrade, "/bye")
	if _, err := readHead(c.r); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c.r); err != nil || string(b) != "hello " {
		t.Errorf("%q %v", b, err)
	}
	c = g.dial()
	c.send(upgrade, "/stay")
	if _, err := readHead(c.r); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-ended
}

// An upstream that switches although nobody asked is an error.
func TestUnaskedSwitch(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		o.head(r)
		io.WriteString(c, switching)
	})
	g := start(t, nil)
	g.put("routes/1", route("/a", up.addr, ""))
	if r, _ := g.get("/a"); r.StatusCode != http.StatusBadGateway {
		t.Errorf("%d", r.StatusCode)
	}
}

// WebSockets are balanced as requests are (field case 179).
func TestTunnelsAreBalanced(t *testing.T) {
	one, two := switcher(t, switching), switcher(t, switching)
	g := start(t, nil)
	g.put("routes/1", fmt.Sprintf(`{"uri":"/ws","enable_websocket":true,"upstream":{"type":"roundrobin","nodes":{%q:1,%q:1}}}`, one.addr, two.addr))
	for range 4 {
		c := g.open(t, "/ws")
		c.send("ping")
		c.expect(t, "ping")
	}
	if a, b := len(one.heads()), len(two.heads()); a != 2 || b != 2 {
		t.Errorf("%d and %d of 4", a, b)
	}
}
