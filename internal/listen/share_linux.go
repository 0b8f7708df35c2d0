package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// share makes a socket one of those that may have the same address.
func share(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); cerr != nil {
		return cerr
	}
	return err
}

// direct makes the kernel choose the second of the sockets that share an address
// for every new connection, by a program that returns its number
// (SO_ATTACH_REUSEPORT_CBPF, socket(7)). They are numbered in the order in which
// they were opened, and the last takes the place of one that is closed: the
// process that is replaced has number 0. Without a second one, or in a kernel
// that cannot do this, the choice stays as it was.
func direct(c syscall.Conn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	// Failure costs only connections that arrive in the moment of closing.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}
