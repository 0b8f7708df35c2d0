package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"weir/internal/wire"
)

// maxSlack bounds how much later than asked a time-out may come.
const maxSlack = time.Second

// A conn is one connection to a node. While a Call has it, the Call's goroutine
// reads, and that goroutine or the one that uploads writes.
type conn struct {
	tcp   *net.TCPConn
	tls   *tls.Conn // over tcp; nil: plain
	io    net.Conn  // tls or tcp
	under *beneath  // tcp as tls reads it
	ident ident
	r     wire.Reader

	stream *stream // instead of all of these: part of a connection that others use, too

	probe *wire.Probe
	pool  *pool
	now   func() time.Time

	requests int // sent on it, with the current one

	readBy, writeBy time.Time // deadlines as they are set
	wrote           time.Time // about now: the request has just been written; zero: not so
	readTimeout     time.Duration
	sendTimeout     time.Duration

	got     int64 // bytes read since the current request was begun
	written int64 // bytes written since then

	// born and lastWrite tell when the upload last went on: the time to wait for
	// an answer begins then.
	born      time.Time
	lastWrite atomic.Int64 // since born
	uploading atomic.Bool

	// In the pool's list.
	newer, older *conn
	expires      time.Time
}

func newConn(tcp *net.TCPConn, p *pool, id ident, now func() time.Time) *conn {
	c := &conn{ident: id, tcp: tcp, io: tcp, probe: wire.NewProbe(tcp), pool: p, now: now, born: now()}
	c.r.Reset(c, wire.Limits{Head: id.head})
	return c
}

// begin makes c ready for a request.
func (c *conn) begin(send, read time.Duration) {
	c.sendTimeout, c.readTimeout = send, read
	c.got, c.written, c.wrote = 0, 0, time.Time{}
	c.requests++
	c.lastWrite.Store(0)
}

// alive reports whether an idle c can be used: its node has neither closed it
// nor sent anything that nobody asked for.
func (c *conn) alive() bool {
	if c.tls != nil {
		return c.aliveTLS()
	}
	return c.probe.State() == wire.Quiet
}

// shut ends the connection. It may be called from any goroutine while others
// use it.
func (c *conn) shut() {
	if c.stream != nil {
		c.stream.shut()
		return
	}
	c.tcp.Close()
}

// close ends the connection, which nobody uses, and gives its buffers back.
func (c *conn) close() {
	if c.stream != nil {
		c.stream.end()
		return
	}
	if c.tls != nil {
		c.tls.Close() // says goodbye, where the connection is still there
	}
	c.shut()
	c.r.Reset(nil, wire.Limits{})
}

// slack is what a deadline may be late by, so that it need not be set for every
// read and write.
func slack(timeout time.Duration) time.Duration { return min(maxSlack, timeout/10) }

// due reports whether the deadline at must be set anew for an operation that
// begins now.
func due(at, now time.Time, timeout time.Duration) bool {
	left := at.Sub(now)
	return left < timeout || left > timeout+slack(timeout)
}

func (c *conn) refreshRead(now time.Time) error {
	if !due(c.readBy, now, c.readTimeout) {
		return nil
	}
	c.readBy = now.Add(c.readTimeout + slack(c.readTimeout))
	return c.tcp.SetReadDeadline(c.readBy)
}

func (c *conn) refreshWrite(now time.Time) error {
	if !due(c.writeBy, now, c.sendTimeout) {
		return nil
	}
	c.writeBy = now.Add(c.sendTimeout + slack(c.sendTimeout))
	return c.tcp.SetWriteDeadline(c.writeBy)
}

// Read reads for wire.Reader, within the read time-out. An answer is not
// expected before the request is sent: while the upload goes on, and for the
// time-out after its last byte, it waits on.
func (c *conn) Read(p []byte) (int, error) {
	now := c.wrote
	if c.wrote = (time.Time{}); now.IsZero() {
		now = c.now()
	}
	if err := c.refreshRead(now); err != nil {
		return 0, err
	}
	for {
		n, err := c.io.Read(p)
		c.got += int64(n)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now = c.now()
		from := c.born.Add(time.Duration(c.lastWrite.Load()))
		if c.uploading.Load() {
			from = now
		}
		c.readBy = from.Add(c.readTimeout + slack(c.readTimeout))
		if !c.readBy.After(now) {
			return 0, err
		}
		if err := c.tcp.SetReadDeadline(c.readBy); err != nil {
			return 0, err
		}
	}
}

// writeHead writes a request without a body, within the send time-out.
func (c *conn) writeHead(head []byte, now time.Time) error {
	if err := c.refreshWrite(now); err != nil {
		return err
	}
	n, err := c.io.Write(head)
	c.written += int64(n)
	c.wrote = now
	return err
}

// write writes the pieces of a request as one, within the send time-out. The
// list is used up.
func (c *conn) write(pieces *net.Buffers) error {
	if err := c.refreshWrite(c.now()); err != nil {
		return err
	}
	if c.tls != nil {
		return c.writeTLS(pieces)
	}
	n, err := pieces.WriteTo(c.tcp)
	c.written += n
	return err
}
