package wire

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// directly is a TCP connection and what is being read and written.
type directly struct {
	raw     syscall.RawConn
	in, out half
}

// A half is one direction, with what is being read or written.
type half struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) (done bool)
}

func direct(tcp *net.TCPConn) io.ReadWriter {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return tcp
	}
	s := &directly{raw: raw}
	s.in.try, s.out.try = s.in.read, s.out.write
	return s
}

// Read implements io.Reader.
func (s *directly) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in.begin(p)
	return s.in.end(s.raw.Read(s.in.try))
}

// Write implements io.Writer.
func (s *directly) Write(p []byte) (int, error) {
	s.out.begin(p)
	return s.out.end(s.raw.Write(s.out.try))
}

func (h *half) begin(p []byte) { h.p, h.n, h.err = p, 0, nil }

func (h *half) end(err error) (int, error) {
	if h.p = nil; err == nil {
		err = h.err
	}
	return h.n, err
}

// read reads once; false: there is nothing yet.
func (h *half) read(fd uintptr) bool {
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(h.p))), uintptr(len(h.p)))
		switch {
		case e == syscall.EAGAIN:
			return false
		case e == syscall.EINTR:
			continue
		case e != 0:
			h.err = os.NewSyscallError("read", e)
		case n == 0:
			h.err = io.EOF
		default:
			h.n = int(n)
		}
		return true
	}
}

// write writes what is left; false: there is no room for all of it yet.
func (h *half) write(fd uintptr) bool {
	for h.n < len(h.p) {
		rest := h.p[h.n:]
		n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)))
		switch {
		case e == syscall.EAGAIN:
			return false
		case e == syscall.EINTR:
		case e != 0:
			h.err = os.NewSyscallError("write", e)
			return true
		default:
			h.n += int(n)
		}
	}
	return true
}
