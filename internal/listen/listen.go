// Package listen opens the sockets that a gateway listens on: its own, which it
// may share with the process that replaces it (SO_REUSEPORT), or those that
// systemd has opened for it (sd_listen_fds(3)).
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Sockets are those of one process. All methods may be called by many goroutines.
type Sockets struct {
	shared bool

	mu        sync.Mutex
	inherited []*inherited
	open      []syscall.Conn // TCP sockets that are shared
}

// ErrCovered says that a socket that is open already serves the address: one for
// all addresses of both families, which systemd opens for a mere port.
var ErrCovered = errors.New("another socket serves the address")

// New takes the sockets that systemd has opened, if LISTEN_PID in environ names
// this process. Sockets that it opens itself can be opened by another process,
// too, if shared.
func New(shared bool, environ func(string) string) (*Sockets, error) {
	s := &Sockets{shared: shared}
	if environ("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return s, nil
	}
	n, err := strconv.Atoi(environ("LISTEN_FDS"))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS is %q", environ("LISTEN_FDS"))
	}
	for fd := firstInherited; fd < firstInherited+n; fd++ {
		i, err := inherit(fd)
		if err != nil {
			return nil, fmt.Errorf("LISTEN_FDS: descriptor %d: %w", fd, err)
		}
		s.inherited = append(s.inherited, i)
	}
	return s, nil
}

// firstInherited is SD_LISTEN_FDS_START.
const firstInherited = 3

// An inherited socket is stream or packet.
type inherited struct {
	network string // tcp or udp
	addr    netip.AddrPort
	stream  net.Listener
	packet  net.PacketConn
	taken   bool
}

func inherit(fd int) (*inherited, error) {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "LISTEN_FDS")
	defer f.Close() // the net package works with a copy
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil {
		return nil, err
	}
	i := &inherited{network: "tcp"}
	var addr net.Addr
	if kind == syscall.SOCK_DGRAM {
		i.network = "udp"
		if i.packet, err = net.FilePacketConn(f); err == nil {
			addr = i.packet.LocalAddr()
		}
	} else if i.stream, err = net.FileListener(f); err == nil {
		addr = i.stream.Addr()
	}
	if err != nil {
		return nil, err
	}
	i.addr, err = netip.ParseAddrPort(addr.String())
	return i, err
}

// take finds an inherited socket for an address; nil: there is none.
func (s *Sockets) take(network, addr string) (*inherited, error) {
	want, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, nil // a name: nobody opens those for us
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, exact := range []bool{true, false} {
		for _, i := range s.inherited {
			switch {
			case i.network != strings.TrimRight(network, "46"), i.addr.Port() != want.Port():
			case exact && i.addr.Addr().Unmap() != want.Addr().Unmap():
			case !exact && !(i.addr.Addr() == netip.IPv6Unspecified() && want.Addr().IsUnspecified()):
			case i.taken:
				return nil, ErrCovered
			default:
				i.taken = true
				return i, nil
			}
		}
	}
	return nil, nil
}

// Listen opens a TCP socket, as net.Listen does, or takes one that is open.
func (s *Sockets) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	switch i, err := s.take(network, addr); {
	case err != nil:
		return nil, err
	case i != nil:
		return i.stream, nil
	}
	l, err := s.config().Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if c, ok := l.(syscall.Conn); ok && s.shared {
		s.mu.Lock()
		s.open = append(s.open, c)
		s.mu.Unlock()
	}
	return l, nil
}

// ListenPacket is Listen for UDP.
func (s *Sockets) ListenPacket(ctx context.Context, network, addr string) (net.PacketConn, error) {
	switch i, err := s.take(network, addr); {
	case err != nil:
		return nil, err
	case i != nil:
		return i.packet, nil
	}
	return s.config().ListenPacket(ctx, network, addr)
}

func (s *Sockets) config() *net.ListenConfig {
	if !s.shared {
		return new(net.ListenConfig)
	}
	c := &net.ListenConfig{Control: share}
	c.SetMultipathTCP(false) // its sockets cannot be directed
	return c
}

// Unused are the addresses that systemd has opened and nobody asked for.
func (s *Sockets) Unused() (addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.inherited {
		if !i.taken {
			addrs = append(addrs, i.network+" "+i.addr.String())
		}
	}
	return addrs
}

// lastAccepts is how long connections are still accepted that were begun before
// others were directed elsewhere: the client's last packet of the handshake is on
// its way.
const lastAccepts = 500 * time.Millisecond

// HandOver directs new connections to the process that shares the sockets, if
// there is one, and returns when those that were begun before have arrived, or ctx
// ends. The sockets can be closed then without refusing anybody.
func (s *Sockets) HandOver(ctx context.Context) {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	if len(open) == 0 {
		return
	}
	for _, c := range open {
		direct(c)
	}
	select {
	case <-time.After(lastAccepts):
	case <-ctx.Done():
	}
}

// Close closes what systemd has opened and nobody asked for.
func (s *Sockets) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.inherited {
		switch {
		case i.taken:
		case i.stream != nil:
			i.stream.Close()
		default:
			i.packet.Close()
		}
	}
}

// Notify tells systemd a state, for instance "READY=1" (sd_notify(3)), if it
// wants to know.
func Notify(state string, environ func(string) string) error {
	at := environ("NOTIFY_SOCKET")
	if at == "" {
		return nil
	}
	if at[0] == '@' {
		at = "\x00" + at[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	_, err = c.Write([]byte(state))
	return errors.Join(err, c.Close())
}
