package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
)

// errUnresolved marks a node that has no address.
var errUnresolved = errors.New("name does not resolve")

// connect takes or makes a connection to n.
func (c *Call) connect(n *node, kept bool) error {
	c.reused, c.repeat, c.end = false, true, nil
	c.unprocessed, c.busy = false, false
	if err := c.identify(n); err != nil {
		c.repeat = false
		return err
	}
	if ends := n.known(c.began); ends != nil {
		c.end = ends.pick(nil)
		if conn := c.keptConn(kept); conn != nil {
			return c.attach(conn)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout.Connect)
	defer cancel()
	c.connecting(cancel)
	conn, err := c.dial(ctx, n, kept)
	c.connecting(nil)
	t := &c.Tries[len(c.Tries)-1]
	if c.end != nil {
		t.Addr = c.end.addr
	}
	if err != nil {
		return c.dialFault(err, ctx.Err())
	}
	if !c.reused {
		t.Connect = c.up.now().Sub(c.began)
	}
	return c.attach(conn)
}

// connecting lets Abort cancel what needs ctx; nil: nothing does any more.
func (c *Call) connecting(cancel context.CancelFunc) {
	c.mu.Lock()
	c.cancel = cancel
	if c.aborted && cancel != nil {
		cancel()
	}
	c.mu.Unlock()
}

// identify says what the connection must be for the request.
func (c *Call) identify(n *node) error {
	c.id, c.cert = ident{http2: multiplexed(c.scheme), tunnel: c.up.through(), head: c.up.maxHead}, nil
	if c.isTLS() == 0 {
		return nil
	}
	cert, err := c.up.tls.certificate(&c.up.env)
	if err != nil {
		return &Error{Kind: NoCertificate, Addr: c.Node, Err: err}
	}
	c.id.tls, c.id.verify, c.id.sni = true, c.up.tls.verify, hostOnly(c.authority(n))
	c.id.roots = c.up.tls.rootsID
	if cert != nil {
		c.cert, c.id.cert = cert, cert.fingerprint
	}
	return nil
}

// hostOnly is an authority without its port and brackets.
func hostOnly(authority string) string {
	if strings.HasPrefix(authority, "[") {
		host, _, _ := strings.Cut(authority[1:], "]")
		return host
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

// keptConn takes a kept connection to the chosen address that can be used.
func (c *Call) keptConn(kept bool) *conn {
	if kept && c.id.http2 {
		return c.keptShared()
	}
	for kept {
		conn := c.end.pool.take(&c.id, c.began)
		if conn == nil {
			return nil
		}
		if conn.alive() {
			c.reused = true
			c.Tries[len(c.Tries)-1].Addr = c.end.addr
			return conn
		}
		conn.close()
	}
	return nil
}

// dial connects to an address of n. Where there are several and one refuses, the
// next is taken, since nothing was sent yet.
func (c *Call) dial(ctx context.Context, n *node, kept bool) (*conn, error) {
	ends, err := n.resolve(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.Join(errUnresolved, err)
	}
	if c.end == nil || !slices.Contains(ends.list, c.end) {
		c.end = ends.pick(nil)
		if conn := c.keptConn(kept); conn != nil {
			return conn, nil
		}
	}
	var failed []*endpoint
	for {
		conn, err := c.end.dial(ctx, c, kept)
		if err == nil || ctx.Err() != nil || timedOut(err) {
			return conn, err
		}
		failed = append(failed, c.end)
		next := ends.pick(failed)
		if next == nil {
			return nil, err
		}
		c.checked().Failed()
		c.end = next
	}
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// dial connects for c. ctx bounds connecting and the TLS handshake. With kept,
// others may wait for the connection, or c for one that another makes.
func (e *endpoint) dial(ctx context.Context, c *Call, kept bool) (*conn, error) {
	if c.id.http2 {
		return e.dialShared(ctx, c, kept)
	}
	nc, err := c.open(ctx, e.addr)
	if err != nil {
		return nil, err
	}
	conn := newConn(nc, e.pool, c.id, c.up.env.Now)
	if !c.id.tls {
		return conn, nil
	}
	conn.ident.sni = strings.Clone(c.id.sni) // the request's memory does not last
	if err := conn.secure(ctx, c.up.tls.config(&c.up.env, &conn.ident, e.addr, c.cert)); err != nil {
		conn.close()
		return nil, err
	}
	return conn, nil
}

func (c *Call) dialFault(err, ended error) *Error {
	e := &Error{Kind: Dial, Addr: c.Node, Err: err}
	switch {
	case c.isAborted():
		e.Kind, c.repeat = Aborted, false
	case errors.Is(err, errUnresolved):
		e.Kind = NoNodes
	case ended != nil, timedOut(err):
		e.Kind = Timeout
	}
	if c.up.tunnel != nil && (e.Kind == Dial || e.Kind == Timeout) {
		e.Kind = Proxy
	}
	return e
}

// attach makes conn the Call's.
func (c *Call) attach(conn *conn) error {
	conn.begin(c.timeout.Send, c.timeout.Read)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted {
		c.repeat = false
		conn.close()
		return &Error{Kind: Aborted, Addr: c.Node}
	}
	c.conn = conn
	return nil
}
