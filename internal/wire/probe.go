package wire

import (
	"net"
	"sync"
	"syscall"
	"unsafe"
)

// A ProbeState is what a look at a connection found.
type ProbeState uint8

// The states.
const (
	Quiet    ProbeState = iota // open, nothing to read
	Readable                   // bytes wait to be read
	Ended                      // the peer sends no more, or the connection failed
)

// A Probe looks at a connection without reading from it: before an idle
// upstream connection is reused, and to notice a client that left. It may be
// used while others read from and write to the connection.
//
// For TLS probe the connection beneath: Quiet and Ended mean the same there,
// while Readable may be a session ticket.
type Probe struct {
	mu    sync.Mutex
	conn  syscall.RawConn
	look  func(fd uintptr)
	state ProbeState
	peek  [1]byte
}

// NewProbe returns a Probe of c, or nil if c has no file descriptor.
func NewProbe(c net.Conn) *Probe {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &Probe{conn: raw}
	p.look = p.recv
	return p
}

// State looks at the connection with one system call that does not block. It
// does not allocate.
func (p *Probe) State() ProbeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Control, unlike Read, does not wait for whoever is blocked in a read.
	if p.conn.Control(p.look) != nil {
		return Ended
	}
	return p.state
}

func (p *Probe) recv(fd uintptr) {
	for {
		// Raw: the call never waits, so that the scheduler need not be told.
		n, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p.peek)), uintptr(len(p.peek)),
			syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			p.state = Quiet
		case err == 0 && n > 0:
			p.state = Readable
		default:
			p.state = Ended
		}
		return
	}
}
