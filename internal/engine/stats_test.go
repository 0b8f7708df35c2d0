package engine

import (
	"net"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	up := fixedBodies(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	g := start(t, nil)
	g.put("routes/1", route("/*", up.addr, ""))
	g.get("/")
	c := g.dial()
	for range 3 {
		c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.answer("GET")
	}
	busy := g.dial()
	busy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	want := Stats{Accepted: 3, Requests: 5, Active: 2, Busy: 1}
	var got Stats
	for range 500 {
		if got = g.Stats(); got == want {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	busy.send("hello")
	busy.answer("POST")
	for _, x := range []net.Conn{busy, c} {
		x.Close()
	}
}
