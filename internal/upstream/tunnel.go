package upstream

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/wire"
)

// tunnelBuffer is the memory of one direction of a tunnel; of plain TCP only while
// bytes are on their way. Most tunnels are idle most of the time.
const tunnelBuffer = 4 << 10

// Tunnel joins the client with the node after a 101 response, until one of them
// ends the connection or the node is silent for longer than the read time-out
// (as nginx, for which a ping from the client counts when it is answered). first
// is what the client has sent already. It returns the bytes carried to the node
// and to the client. The Call's connection is used up.
func (c *Call) Tunnel(client net.Conn, first []byte) (up, down int64) {
	conn := c.conn
	var wg sync.WaitGroup
	var ended atomic.Bool
	wg.Go(func() {
		up = conn.carryUp(client, first)
		ended.Store(true)
		conn.tcp.SetReadDeadline(past)
	})
	down = conn.carryDown(client, &ended)
	client.SetReadDeadline(past)
	wg.Wait()
	return up, down
}

// past makes a read that is under way, and later ones, fail.
var past = time.Unix(1, 0)

// carryUp sends first, then what comes from the client, until one side fails.
func (c *conn) carryUp(client net.Conn, first []byte) (sent int64) {
	if len(first) > 0 {
		n, err := c.io.Write(first)
		if sent = int64(n); err != nil {
			return sent
		}
	}
	from := wire.NewSource(client, tunnelBuffer)
	for {
		b, n, _, err := from.Read()
		if err != nil {
			return sent
		}
		if err = c.tcp.SetWriteDeadline(c.now().Add(c.sendTimeout)); err == nil {
			n, err = c.io.Write(b.B[:n])
			sent += int64(n)
		}
		b.Free()
		if err != nil {
			return sent
		}
	}
}

// carryDown sends the client what comes from the node, beginning with what was
// read along with the response's head, until one side fails or has ended.
func (c *conn) carryDown(client net.Conn, ended *atomic.Bool) (sent int64) {
	send := func(p []byte) error {
		client.SetWriteDeadline(c.now().Add(c.sendTimeout))
		n, err := client.Write(p)
		sent += int64(n)
		return err
	}
	if rest := c.r.Rest(); len(rest) > 0 && send(rest) != nil {
		return sent
	}
	from := wire.NewSource(c.io, tunnelBuffer)
	for {
		// In this order: whoever ends the tunnel sets ended first, the deadline then.
		if c.tcp.SetReadDeadline(c.now().Add(c.readTimeout)) != nil || ended.Load() {
			return sent
		}
		b, n, _, err := from.Read()
		if err == nil {
			err = send(b.B[:n])
			b.Free()
		}
		if err != nil {
			return sent
		}
	}
}
