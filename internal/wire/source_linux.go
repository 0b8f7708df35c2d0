package wire

import "golang.org/x/sys/unix"

// peeks says that try works here.
const peeks = true

// try reads once; false: nothing is there yet.
func (s *Source) try(fd uintptr) bool {
	b := GetBuffer(s.size)
	n, err := unix.Read(int(fd), b.B[:s.size])
	for err == unix.EINTR {
		n, err = unix.Read(int(fd), b.B[:s.size])
	}
	if n > 0 {
		s.b, s.n = b, n
		if n == s.size {
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
