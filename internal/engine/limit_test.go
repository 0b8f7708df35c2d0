package engine

import (
	"bufio"
	"net"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugins/limitconn"
)

// logBoom is a plugin whose Log phase panics before that of limit-conn.
var logBoom = plugin.Define(plugin.Meta{Name: "log-boom", Priority: 5000, Doc: "Test plugin."},
	func(*struct{}, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{Log: func(*plugin.Ctx) { panic("log") }}, nil
	})

// TestConnectionLimitReleases: whatever becomes of a request, its place is free
// afterwards, once.
func TestConnectionLimitReleases(t *testing.T) {
	up := echo(t)
	hanging := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err == nil {
			_, _ = r.ReadByte() // until the gateway gives up
		}
	})
	g := startWith(t, nil, limitconn.Plugin, logBoom)
	const limit = `"limit-conn":{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"route_id","rejected_code":429}`
	limited := func(path, addr, more string) string {
		return route(path, addr, `,"plugins":{`+limit+more+`}`)
	}
	g.put(
		"routes/fine", limited("/fine", up.addr, ""),
		"routes/refused", limited("/refused", up.addr, `,"probe":{"answer":403}`),
		"routes/access", limited("/access", up.addr, `,"probe":{"panic":"access"}`),
		"routes/header", limited("/header", up.addr, `,"probe":{"panic":"header"}`),
		"routes/log", limited("/log", up.addr, `,"probe":{"panic":"log"}`),
		"routes/boom", limited("/boom", up.addr, `,"log-boom":{}`),
		"routes/nobody", limited("/nobody", "127.0.0.1:1", ""),
		"routes/hanging", limited("/hanging", hanging.addr, ""),
	)
	// status sends a request on a connection of its own.
	status := func(path string) int {
		c := g.dial()
		defer c.Close()
		c.send("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path)
		r, _ := c.answer("GET")
		return r.StatusCode
	}
	for path, want := range map[string]int{
		"/fine": 200, "/refused": 403, "/access": 500, "/header": 500, "/log": 200, "/boom": 200, "/nobody": 502,
	} {
		for i := range 3 {
			await(t, path, func() bool { return status(path) == want })
			if t.Failed() {
				t.Fatalf("%s: request %d", path, i)
			}
		}
	}
	c := g.dial()
	c.send("GET /hanging HTTP/1.1\r\nHost: a\r\n\r\n")
	await(t, "the upstream", func() bool { return len(hanging.heads()) == 1 })
	if got := status("/hanging"); got != 429 {
		t.Errorf("beside one that waits: %d", got)
	}
	c.Close()
	await(t, "the place of a client that left", func() bool {
		next := g.dial()
		defer next.Close()
		next.send("GET /hanging HTTP/1.1\r\nHost: a\r\n\r\n")
		next.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := bufio.NewReader(next).ReadByte()
		return err != nil // it waits: it was admitted
	})
}

// await waits for what happens soon.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 1000 {
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s: it does not happen", what)
}
