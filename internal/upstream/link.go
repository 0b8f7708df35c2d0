package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"weir/internal/model"
)

// defaultIdle is how long a session may be silent (nginx: proxy_timeout).
const defaultIdle = 10 * time.Minute

// A Session is one connection at level 4 on its way to a node.
type Session struct {
	// Network is tcp or udp. TLS to the node is the upstream's choice, over tcp.
	Network string

	// ServerName is asked for by TLS; empty: the node's name, if it has one.
	ServerName string

	// HashKey and BeforeTry are as in Call.
	HashKey   func() string
	BeforeTry func(try int) error

	// Node is the host:port of the last node that was chosen, Tries what was
	// tried.
	Node  string
	Tries []Try
}

// A Link is a connection to a node.
type Link struct {
	net.Conn
	Idle time.Duration // how long both sides may be silent
	held atomic.Pointer[load]
}

// Close ends the connection, and the node is less busy by one. It may be called
// more than once.
func (l *Link) Close() error {
	if held := l.held.Swap(nil); held != nil {
		held.active.Add(-1)
	}
	return l.Conn.Close()
}

// idle is the silence that the configuration allows sessions.
func idle(t model.Timeout) time.Duration { return cmp.Or(t.Read, t.Send, defaultIdle) }

// Connect makes a connection to a node, with the balancer, the retries and the
// time-out for connecting that u has for requests. Its error is an *Error, or
// what BeforeTry returned. An end of ctx is an Error of Kind Aborted.
func (u *Upstream) Connect(ctx context.Context, s *Session) (*Link, error) {
	c := &Call{}
	c.up, c.scheme, c.timeout = u, u.sessionScheme(s.Network), u.timeout
	c.started = u.now()
	c.began = c.started
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	if u.kind == chashType && s.HashKey != nil {
		c.filter.key = hashKey(s.HashKey())
	}
	if err := c.findNodes(); err != nil {
		return nil, err
	}
	link, err := c.link(s)
	s.Tries = c.Tries
	if err != nil {
		c.letGo()
		return nil, err
	}
	link.Idle = u.idle
	link.held.Store(c.held)
	if c.held != nil && u.kind == ewma {
		c.held.observe(c.Tries[len(c.Tries)-1].Connect, u.now())
	}
	return link, nil
}

// sessionScheme is what a session makes of u's scheme: those of HTTP stand for
// tcp.
func (u *Upstream) sessionScheme(network string) string {
	if network == "tcp" && u.scheme == "tls" {
		return "tls"
	}
	return network
}

// link tries nodes until one can be reached.
func (c *Call) link(s *Session) (*Link, error) {
	var last *Error
	for try := 0; ; try++ {
		n, err := c.choose(last)
		if err != nil {
			return nil, err
		}
		if n.noPort {
			return nil, &Error{Kind: NoPort, Addr: n.addr}
		}
		c.Node, s.Node = n.addr, n.addr
		if s.BeforeTry != nil {
			if err := s.BeforeTry(try); err != nil {
				return nil, err
			}
		}
		nc, err := c.reach(n, s)
		if err == nil {
			return &Link{Conn: nc}, nil
		}
		last = ours(err)
		if err := c.again(n, last); err != nil {
			return nil, err
		}
	}
}

// reach connects to n.
func (c *Call) reach(n *node, s *Session) (net.Conn, error) {
	if c.attempts > 0 {
		c.began = c.up.now()
	}
	c.Tries = append(c.Tries, Try{Addr: n.addr, Scheme: c.scheme})
	c.repeat, c.end = true, nil
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout.Connect)
	defer cancel()
	c.connecting(cancel)
	nc, err := c.dialLink(ctx, n, s)
	c.connecting(nil)
	t := &c.Tries[len(c.Tries)-1]
	if c.end != nil {
		t.Addr = c.end.addr
	}
	var ready *Error
	switch {
	case errors.As(err, &ready):
		c.repeat = false
		return nil, ready
	case err != nil:
		return nil, c.dialFault(err, ctx.Err())
	}
	t.Connect = c.up.now().Sub(c.began)
	return nc, nil
}

// dialLink is dial for sessions.
func (c *Call) dialLink(ctx context.Context, n *node, s *Session) (net.Conn, error) {
	ends, err := n.resolve(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.Join(errUnresolved, err)
	}
	var failed []*endpoint
	for c.end = ends.pick(nil); ; {
		nc, err := new(net.Dialer).DialContext(ctx, s.Network, c.end.addr)
		if err == nil && c.scheme == "tls" {
			nc, err = c.secureLink(ctx, nc, n, s)
		}
		if err == nil || ctx.Err() != nil || timedOut(err) {
			return nc, err
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

// secureLink makes a TLS connection of nc, which it closes when it fails.
func (c *Call) secureLink(ctx context.Context, nc net.Conn, n *node, s *Session) (net.Conn, error) {
	u := c.up
	cert, err := u.tls.certificate(&u.env)
	if err != nil {
		nc.Close()
		return nil, &Error{Kind: NoCertificate, Addr: c.Node, Err: err}
	}
	id := ident{tls: true, verify: u.tls.verify, sni: cmp.Or(s.ServerName, n.domain)}
	if cert != nil {
		id.cert = cert.fingerprint
	}
	cfg := u.tls.config(&u.env, &id, c.end.addr, cert)
	cfg.NextProtos = nil // what the client speaks is not known
	t := tls.Client(nc, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return t, nil
}
