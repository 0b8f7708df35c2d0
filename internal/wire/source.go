package wire

import (
	"io"
	"net"
	"syscall"
)

// A Source reads from a connection. From plain TCP it has a buffer only while
// bytes are there, so that a connection that is silent most of the time costs
// little.
type Source struct {
	conn    net.Conn
	size    int
	raw     syscall.RawConn // nil: not plain TCP
	b       *Buffer
	n       int
	waiting int
	err     error
}

// NewSource returns a Source that takes up to size bytes at once.
func NewSource(c net.Conn, size int) *Source {
	s := &Source{conn: c, size: size}
	if t, ok := c.(*net.TCPConn); ok && peeks {
		s.raw, _ = t.SyscallConn() // without it, as any other connection
	}
	return s
}

// Read waits for bytes, or for the connection's read deadline, and returns n of
// them in a buffer that the caller frees. If it is full, waiting may tell how many
// more are there, of plain TCP. The end is io.EOF.
func (s *Source) Read() (b *Buffer, n, waiting int, err error) {
	if s.raw == nil {
		b = GetBuffer(s.size)
		if n, err = s.conn.Read(b.B[:s.size]); n > 0 {
			return b, n, 0, nil // an error that lasts comes again
		}
		b.Free()
		return nil, 0, 0, err
	}
	s.b, s.n, s.waiting, s.err = nil, 0, 0, nil
	if err := s.raw.Read(s.try); err != nil {
		return nil, 0, 0, err
	}
	switch {
	case s.err != nil:
		return nil, 0, 0, s.err
	case s.n == 0:
		return nil, 0, 0, io.EOF
	}
	return s.b, s.n, s.waiting, nil
}
