package logentry

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// A Socket says how a server is reached that takes entries over TCP, TLS or UDP.
type Socket struct {
	Network string      // tcp or udp
	Addr    string      // host:port
	TLS     *tls.Config // nil: plain
	Timeout time.Duration
}

// Send connects and has write send a batch, whose result it returns; both
// together take at most the timeout. It returns soon after ctx ends.
func (s *Socket) Send(ctx context.Context, write func(net.Conn) (done int, err error)) (done int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var c net.Conn
	if s.TLS != nil {
		c, err = (&tls.Dialer{Config: s.TLS}).DialContext(ctx, s.Network, s.Addr)
	} else {
		c, err = new(net.Dialer).DialContext(ctx, s.Network, s.Addr)
	}
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if by, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(by); err != nil {
			return 0, err
		}
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return write(c)
}

// Document is a batch as one JSON document: the array of its entries or, if
// single, its only entry.
func Document(entries [][]byte, single bool) []byte {
	if single && len(entries) == 1 {
		return entries[0]
	}
	return Join("[", entries, ",", "]")
}

// Join puts begin before the entries, sep between them and end after them.
func Join(begin string, entries [][]byte, sep, end string) []byte {
	size := len(begin) + len(end)
	for _, e := range entries {
		size += len(e) + len(sep)
	}
	b := append(make([]byte, 0, size), begin...)
	for i, e := range entries {
		if i > 0 {
			b = append(b, sep...)
		}
		b = append(b, e...)
	}
	return append(b, end...)
}
