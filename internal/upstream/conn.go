package upstream

import (
	"net"
	"time"
)

// A conn is one connection to a node.
type conn struct {
	tcp      *net.TCPConn
	pool     *pool
	now      func() time.Time
	requests int

	// In the pool's list.
	newer, older *conn
	expires      time.Time
}

func newConn(tcp *net.TCPConn, p *pool, now func() time.Time) *conn {
	return &conn{tcp: tcp, pool: p, now: now}
}

func (c *conn) close() { c.tcp.Close() }
