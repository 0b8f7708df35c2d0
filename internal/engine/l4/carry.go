package l4

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"weir/internal/wire"
)

// piece is the memory of one direction of a session. One between two plain TCP
// connections has it only while bytes are on their way.
const piece = 4 << 10

// carry copies from src to dst until src ends, which is nil, or one of them fails.
// moved counts the bytes.
func (s *session) carry(dst, src net.Conn, moved *atomic.Int64) error {
	to, ok1 := dst.(*net.TCPConn)
	from, ok2 := src.(*net.TCPConn)
	if ok1 && ok2 {
		return s.carryTCP(to, from, moved)
	}
	return s.carryAny(dst, src, moved)
}

func (s *session) carryAny(dst, src net.Conn, moved *atomic.Int64) error {
	b := wire.GetBuffer(piece)
	defer b.Free()
	for {
		n, err := src.Read(b.B)
		if n > 0 {
			s.touch()
			m, err := dst.Write(b.B[:n])
			moved.Add(int64(m))
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
