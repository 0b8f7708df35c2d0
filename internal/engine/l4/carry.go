package l4

import (
	"errors"
	"io"
	"net"

	"weir/internal/wire"
)

const (
	// burst is what one read of plain TCP takes; where more waits it is moved within
	// the kernel. There is a buffer only while bytes are on their way.
	burst = 16 << 10

	piece = 4 << 10 // the memory of another direction, all the time
)

// carry copies from src to dst until src ends, which is nil, or one of them fails.
func (s *session) carry(dst, src net.Conn, f flow) error {
	size := piece
	if _, plain := src.(*net.TCPConn); plain {
		size = burst
	}
	from := wire.NewSource(src, size)
	_, plain := dst.(*net.TCPConn)
	for {
		b, n, waiting, err := from.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		s.touch()
		f.came(n)
		m, err := dst.Write(b.B[:n])
		b.Free()
		f.went(int64(m))
		if err == nil && plain && waiting > 0 {
			var m int64
			m, err = io.Copy(dst, &io.LimitedReader{R: src, N: int64(waiting)}) // splice(2)
			f.came(int(m))
			f.went(m)
		}
		if err != nil {
			return err
		}
	}
}
