// Package h2 speaks HTTP/2 with nodes. x/net's transport does the protocol, its
// flow control and its bounds (RFC 9113); requests and responses are the ones of
// package wire. A connection carries many requests at once.
package h2

//lint:file-ignore SA1019 net/http's ClientConn neither pings nor says that a request was not processed

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"weir/internal/monotonic"
	"weir/internal/wire"
)

// window is how much of a response waits in memory for a client that reads
// slowly.
const window = 512 << 10

// A Transport makes connections. It holds no others.
type Transport struct{ t *http2.Transport }

// NewTransport makes a Transport.
func NewTransport() *Transport {
	base := &http.Transport{
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: window},
	}
	t, err := http2.ConfigureTransports(base)
	if err != nil {
		panic(err) // only for one that was configured before
	}
	t.AllowHTTP, t.ConnPool = true, reserved{}
	t.MaxHeaderListSize = uint32(wire.DefaultLimits().Head)
	return &Transport{t}
}

// A Conn is one connection to a node. All methods may be called by many
// goroutines.
type Conn struct {
	t  *http2.Transport
	cc *http2.ClientConn
	nc *observed
}

// NewConn begins HTTP/2 on nc, which it closes if that fails. It returns when
// the node has said how many requests it takes at once: one that does not speak
// HTTP/2 is found out before a request is sent to it. ctx bounds the wait.
func (t *Transport) NewConn(ctx context.Context, nc net.Conn) (*Conn, error) {
	o := &observed{Conn: nc}
	o.last.Store(monotonic.Now())
	cc, err := t.t.NewClientConn(o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := &Conn{t.t, cc, o}
	// A node's settings are the first that it sends, so they precede the answer.
	if err := c.Ping(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Reserve makes room for one more request; false: the connection takes none, for
// now or for ever. A Stream must follow.
func (c *Conn) Reserve() bool { return c.cc.ReserveNewRequest() }

// Ended says that the connection takes no request any more: it is closed, or
// the node has said goodbye.
func (c *Conn) Ended() bool {
	s := c.cc.State()
	return s.Closed || s.Closing
}

// Retire makes the connection take no further request.
func (c *Conn) Retire() { c.cc.SetDoNotReuse() }

// Heard is when something came from the node last.
func (c *Conn) Heard() time.Time { return monotonic.Time(c.nc.last.Load()) }

// Ping asks the node for a sign of life.
func (c *Conn) Ping(ctx context.Context) error { return c.cc.Ping(ctx) }

// Close ends the connection and every request on it.
func (c *Conn) Close() {
	// It closes the socket; that says whatever is left to say.
	_ = c.cc.Close()
}

// observed is a connection that knows when something was read.
type observed struct {
	net.Conn
	last atomic.Int64 // monotonic
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if n > 0 {
		o.last.Store(monotonic.Now())
	}
	return n, err
}

// ErrUnprocessed is why a request failed that the node has not looked at: it may
// be sent again, whatever its method (RFC 9113 §8.7).
var ErrUnprocessed = errors.New("the node refused the stream or was saying goodbye")

// reserved hands x/net the connection that a Stream has reserved. When it asks a
// second time, it has found out that the request was not processed; trying again
// is for the caller.
type reserved struct{}

// GetClientConn implements http2.ClientConnPool.
func (reserved) GetClientConn(r *http.Request, _ string) (*http2.ClientConn, error) {
	s, _ := r.Context().Value(streamKey{}).(*Stream)
	if s == nil || s.sent {
		return nil, ErrUnprocessed
	}
	s.sent = true
	return s.conn.cc, nil
}

// MarkDead implements http2.ClientConnPool.
func (reserved) MarkDead(*http2.ClientConn) {}

// refuse is http.Request's GetBody, which x/net calls before it would send a
// request again.
func refuse() (body, error) { return nil, ErrUnprocessed }
