package l4

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
)

// errTimeout is what a read that took too long fails with.
var errTimeout = os.ErrDeadlineExceeded

// deletion removes stream routes.
func deletion(revision int64, ids ...string) model.Delta {
	d := model.Delta{Revision: revision}
	for _, id := range ids {
		d.Del = append(d.Del, model.Key{Kind: model.KindStreamRoute, ID: id})
	}
	return d
}

// udpNode answers each datagram with the sender's port and the datagram.
func udpNode(t testing.TB) string {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(fmt.Appendf(nil, "%d:%s", from.Port(), b[:n]), from) // as UDP does
		}
	})
	t.Cleanup(func() { c.Close(); wg.Wait() })
	return c.LocalAddr().String()
}

func (g *gateway) dialUDP() net.Conn {
	g.Helper()
	c, err := net.Dial("udp", g.udp.LocalAddr().String())
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patient))
	return c
}

func exchange(t testing.TB, c net.Conn, text string) (port int, got string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, maxDatagram)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(b[:n]), "%d:", &port); err != nil {
		t.Fatal(err)
	}
	return port, string(b[len(fmt.Sprint(port))+1 : n])
}

func TestUDP(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{"upstream":{"scheme":"udp","nodes":{"`+udpNode(t)+`":1}}}`)
	a, b := g.dialUDP(), g.dialUDP()
	portA, got := exchange(t, a, "one")
	if got != "one" {
		t.Error(got)
	}
	portB, got := exchange(t, b, "two")
	if got != "two" || portA == portB {
		t.Errorf("%q; both clients have %d", got, portA)
	}
	if again, got := exchange(t, a, "three"); got != "three" || again != portA {
		t.Errorf("%q; a session has two ports", got)
	}
}

func TestUDPLarge(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{`+to(udpNode(t))+`}`)
	c := g.dialUDP()
	large := string(make([]byte, 9000))
	exchange(t, c, "small")
	if _, err := c.Write([]byte(large)); err != nil { // the first is lost: it makes room
		t.Fatal(err)
	}
	if _, got := exchange(t, c, large); got != large {
		t.Errorf("%d bytes", len(got))
	}
}

// TestUDPEviction: beyond the limit the session that is silent the longest ends.
func TestUDPEviction(t *testing.T) {
	g := start(t, Port{}, func(c *Config) { c.MaxUDP = 2 })
	g.put("stream_routes/1", `{`+to(udpNode(t))+`}`)
	a, b, c := g.dialUDP(), g.dialUDP(), g.dialUDP()
	portA, _ := exchange(t, a, "a")
	portB, _ := exchange(t, b, "b")
	exchange(t, c, "c")
	g.lines(1)
	if again, _ := exchange(t, c, "c"); again == portA || again == portB {
		t.Error("a session that is not over gave its port away")
	}
	if n := g.Sessions(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestUDPRefused(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{"plugins":{"ip-restriction":{"blacklist":["127.0.0.1"]}},`+to(udpNode(t))+`}`)
	c := g.dialUDP()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := g.lines(1)[0]; got != "UDP 403 0 0" {
		t.Error(got)
	}
}

func TestUDPIdle(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{"upstream":{"nodes":{"`+udpNode(t)+`":1},"timeout":{"connect":1,"send":0.1,"read":0.1}}}`)
	exchange(t, g.dialUDP(), "x")
	if got := g.lines(1)[0]; got[:7] != "UDP 200" {
		t.Error(got)
	}
}
