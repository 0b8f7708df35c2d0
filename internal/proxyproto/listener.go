package proxyproto

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A Listener accepts connections that begin with a header. A connection without
// one fails at its first use.
type Listener struct {
	net.Listener

	// Trust says whose word about the client is taken: RemoteAddr of the
	// connection is then what the header says. nil: nobody's.
	Trust func(netip.Addr) bool

	Timeout time.Duration // for the header to come; 0: one minute

	mu      sync.Mutex
	waiting map[*Conn]struct{} // for their headers
	closed  bool
}

// Accept implements net.Listener. It does not wait for the header.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, from: l}, nil
}

// Close implements net.Listener. Connections whose header has not come end.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	for c := range l.waiting {
		c.Conn.Close()
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

func (l *Listener) wait(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Conn.Close()
		return
	}
	if l.waiting == nil {
		l.waiting = map[*Conn]struct{}{}
	}
	l.waiting[c] = struct{}{}
}

func (l *Listener) waited(c *Conn) {
	l.mu.Lock()
	delete(l.waiting, c)
	l.mu.Unlock()
}

// A Conn is a connection that begins with a header. Whatever first asks for its
// data or its client's address waits for that.
type Conn struct {
	net.Conn
	from *Listener

	once   sync.Once
	header Header
	err    error

	mu      sync.Mutex
	reading bool      // the header
	until   time.Time // read deadline that was set meanwhile
}

// Header returns what the connection began with.
func (c *Conn) Header() (Header, error) {
	c.once.Do(c.read)
	return c.header, c.err
}

func (c *Conn) read() {
	c.from.wait(c)
	defer c.from.waited(c)
	timeout := c.from.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	c.mu.Lock()
	c.reading = true
	_ = c.Conn.SetReadDeadline(time.Now().Add(timeout)) // a dead connection fails in Read
	c.mu.Unlock()
	c.header, c.err = Read(c.Conn)
	c.mu.Lock()
	c.reading = false
	_ = c.Conn.SetReadDeadline(c.until)
	c.mu.Unlock()
	if c.err != nil {
		c.Conn.Close()
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if _, err := c.Header(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// RemoteAddr is the client's address, if who sent the header is trusted, else the
// sender's.
func (c *Conn) RemoteAddr() net.Addr {
	sender := c.Conn.RemoteAddr()
	a, ok := sender.(*net.TCPAddr)
	if !ok || c.from.Trust == nil || !c.from.Trust(a.AddrPort().Addr().Unmap()) {
		return sender
	}
	if h, err := c.Header(); err == nil && h.Known() {
		return net.TCPAddrFromAddrPort(h.Source)
	}
	return sender
}

// Proxied is who the header says the client is, whether that is believed or not;
// the zero AddrPort: it does not say. It waits for the header.
func (c *Conn) Proxied() netip.AddrPort {
	if h, err := c.Header(); err == nil && h.Known() {
		return h.Source
	}
	return netip.AddrPort{}
}

// SetReadDeadline implements net.Conn. While the header is awaited the deadline
// is noted for later, unless it has passed: that makes a read end.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading {
		c.until = t
		if t.IsZero() || t.After(time.Now()) {
			return nil
		}
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.Conn.SetWriteDeadline(t))
}

// CloseWrite ends what the client gets.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn where the connection does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
