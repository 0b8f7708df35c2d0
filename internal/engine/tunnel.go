package engine

import (
	"errors"
	"net"

	"weir/internal/wire"
)

// An upgrader is a stream that can become a plain connection: HTTP/1.1 can.
type upgrader interface {
	// Upgrade sends the head of a 101 response and hands over the connection and
	// what the client has sent already.
	Upgrade(r *wire.Response) (client net.Conn, first []byte, err error)
}

var errNoUpgrade = errors.New("the upstream switched protocols unasked")

// wantsUpgrade says that the request asks for a WebSocket and its route allows
// it. No other protocol is switched to.
func (x *exchange) wantsUpgrade() bool {
	if !x.request.Upgrade || x.request.Proto != wire.HTTP11 || !x.websocket {
		return false
	}
	to, _ := x.request.Header.Get("Upgrade")
	return wire.EqualFold(to, "websocket")
}

// tunnel joins client and upstream after the upstream has agreed to a WebSocket.
// What was pinned is let go: a tunnel holds its plan and its upstream, nothing
// else of the configuration.
func (x *exchange) tunnel() {
	r := x.call.Response
	u, ok := x.stream.(upgrader)
	if !ok || !x.upgrading {
		x.fail(502, errNoUpgrade)
		return
	}
	dropResponseHop(r)
	x.dropFraming(r)
	r.Header.Add("Connection", "upgrade")
	r.Header.Add("Upgrade", "websocket")
	x.ctx.Response = r
	x.run.Header(&x.ctx)
	x.ctx.Sent.Status, x.answered, x.closeAfter = 101, true, true
	x.detach()
	client, first, err := u.Upgrade(r)
	if err != nil {
		x.cut(err)
		return
	}
	_, down := x.call.Tunnel(client, first)
	x.ctx.Sent.BodyBytes += down
	x.ctx.Sent.Bytes += down
}

// detach lets go of the pinned state for an answer that goes on: only what the
// rest of it needs is held.
func (x *exchange) detach() {
	if x.detached {
		return
	}
	x.detached = true
	x.run.Acquire()
	if x.up != nil {
		x.up.Acquire()
	}
	x.ctx.Index = nil
	x.pin.Drop()
}

// release ends what detach holds.
func (x *exchange) release() {
	if x.detached {
		x.run.Release()
		if x.up != nil {
			x.up.Release()
		}
		x.detached = false
	}
}

// Upgrade implements upgrader.
func (c *conn) Upgrade(r *wire.Response) (net.Conn, []byte, error) {
	if err := c.WriteHead(r, nil, false); err != nil {
		return nil, nil, err
	}
	c.read.clear()
	c.write.clear()
	c.upgraded = true
	return c.nc, c.in.Rest(), nil
}
