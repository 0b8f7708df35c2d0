package l4

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/wire"
)

// burst is what one read of a direction takes; where more waits it is moved
// within the kernel.
const burst = 16 << 10

// A source reads from a connection and has a buffer only while something is
// there.
type source struct {
	raw     syscall.RawConn
	b       *wire.Buffer
	n       int
	waiting int // bytes that wait after the buffer was filled
	err     error
}

// read waits for bytes. It returns io.EOF at the end; otherwise s.b, to be freed
// by the caller, holds n bytes.
func (s *source) read() error {
	s.b, s.n, s.waiting, s.err = nil, 0, 0, nil
	if err := s.raw.Read(s.try); err != nil {
		return err
	}
	switch {
	case s.err != nil:
		return s.err
	case s.n == 0:
		return io.EOF
	}
	return nil
}

// try reads once; false: nothing is there yet.
func (s *source) try(fd uintptr) bool {
	b := wire.GetBuffer(burst)
	n, err := unix.Read(int(fd), b.B[:burst])
	for err == unix.EINTR {
		n, err = unix.Read(int(fd), b.B[:burst])
	}
	if n > 0 {
		s.b, s.n = b, n
		if n == burst {
			// Without the number the rest waits for the next read.
			s.waiting, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
		return true
	}
	b.Free()
	if err == unix.EAGAIN {
		return false
	}
	s.err = err
	return true
}

func (s *session) carryTCP(dst, src *net.TCPConn, f flow) error {
	raw, err := src.SyscallConn()
	if err != nil {
		return err
	}
	from := source{raw: raw}
	for {
		if err := from.read(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		s.touch()
		f.came(from.n)
		n, err := dst.Write(from.b.B[:from.n])
		from.b.Free()
		f.went(int64(n))
		if err == nil && from.waiting > 0 {
			var m int64
			m, err = io.Copy(dst, &io.LimitedReader{R: src, N: int64(from.waiting)}) // splice(2)
			f.came(int(m))
			f.went(m)
		}
		if err != nil {
			return err
		}
	}
}
