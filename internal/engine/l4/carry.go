package l4

import (
	"errors"
	"io"
	"net"

	"weir/internal/wire"
)

// piece is the memory of one direction of a session. One between two plain TCP
// connections has it only while bytes are on their way.
const piece = 4 << 10

// carry copies from src to dst until src ends, which is nil, or one of them fails.
func (s *session) carry(dst, src net.Conn, f flow) error {
	to, ok1 := dst.(*net.TCPConn)
	from, ok2 := src.(*net.TCPConn)
	if ok1 && ok2 {
		return s.carryTCP(to, from, f)
	}
	return s.carryAny(dst, src, f)
}

func (s *session) carryAny(dst, src net.Conn, f flow) error {
	b := wire.GetBuffer(piece)
	defer b.Free()
	for {
		n, err := src.Read(b.B)
		if n > 0 {
			s.touch()
			f.came(n)
			m, err := dst.Write(b.B[:n])
			f.went(int64(m))
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
