package engine

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

func TestNeighbourhood(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := neighbourhood(netip.MustParseAddr(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func (g *gateway) dialFrom(t *testing.T, ip string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(t.Context(), "tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// answered says that a connection is served, and not closed.
func answered(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return false
	}
	var b [12]byte
	_, err := io.ReadFull(c, b[:])
	return err == nil && string(b[:]) == "HTTP/1.1 404"
}

func TestPerAddress(t *testing.T) {
	g := start(t, func(c *Config) { c.MaxPerAddress = 2 })
	one, two := g.dialFrom(t, "127.0.0.1"), g.dialFrom(t, "127.0.0.1")
	if !answered(one) || !answered(two) {
		t.Fatal("two were too many")
	}
	if answered(g.dialFrom(t, "127.0.0.1")) {
		t.Error("three were not too many")
	}
	if !answered(g.dialFrom(t, "127.0.0.2")) {
		t.Error("another address has no room")
	}
	one.Close()
	await(t, "room again", func() bool { return answered(g.dialFrom(t, "127.0.0.1")) })
}

// Who comes when there is no room waits until somebody leaves.
func TestMaxConnections(t *testing.T) {
	g := start(t, func(c *Config) { c.MaxConnections = 2 })
	one, two, three := g.dialFrom(t, "127.0.0.1"), g.dialFrom(t, "127.0.0.1"), g.dialFrom(t, "127.0.0.1")
	if !answered(one) || !answered(two) {
		t.Fatal("two were too many")
	}
	if g.door.try() {
		t.Fatal("there is room")
	}
	served := make(chan bool)
	go func() { served <- answered(three) }()
	select {
	case <-served:
		t.Error("three at once")
	case <-time.After(50 * time.Millisecond):
	}
	one.Close()
	if !<-served {
		t.Error("nobody served the third")
	}
}

// When nobody else has room, connections without requests make it, those first that
// have never had one. A client with requests keeps its connection.
func TestMakeRoom(t *testing.T) {
	g := start(t, func(c *Config) { c.MaxConnections = 10 })
	busy := g.dialFrom(t, "127.0.0.1")
	answers := bufio.NewReader(busy)
	ask := func() {
		t.Helper()
		if _, err := io.WriteString(busy, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal("the connection with requests was ended:", err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal("the connection with requests was ended:", err)
		}
		io.Copy(io.Discard, resp.Body)
	}
	ask()
	var silent []net.Conn
	for range 9 {
		silent = append(silent, g.dialFrom(t, "127.0.0.1"))
	}
	late, last := make(chan bool, 1), g.dialFrom(t, "127.0.0.1")
	go func() { late <- answered(last) }()
	for served := false; !served; {
		ask()
		select {
		case ok := <-late:
			if !ok {
				t.Fatal("the late client was refused")
			}
			served = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	ended := 0
	for _, c := range silent {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err == io.EOF {
			ended++
		}
	}
	if ended == 0 || ended == len(silent) {
		t.Errorf("%d of %d silent connections were ended", ended, len(silent))
	}
}

// Clients that ask for nothing, however many, do not keep one that does waiting for
// longer than it waits.
func TestMakeRoomForMany(t *testing.T) {
	g := start(t, func(c *Config) { c.MaxConnections = 10 })
	for range 90 {
		g.dialFrom(t, "127.0.0.1")
	}
	if !answered(g.dialFrom(t, "127.0.0.1")) {
		t.Error("not served before its patience has ended")
	}
}

// What a connection may be ended for, and what keeps it.
func TestTire(t *testing.T) {
	c := &conn{}
	if c.tire() || !c.tire() || c.busy() {
		t.Error("idle since the last look")
	}
	if !c.rouse() || c.tire() || c.leaveIdle(closing) || !c.busy() {
		t.Error("a request is served")
	}
	c.state.Store(idle)
	if c.tire() {
		t.Error("there was a request since the last look")
	}
	if !c.leaveIdle(closing) || c.rouse() {
		t.Error("ended")
	}
}
