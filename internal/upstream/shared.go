package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/upstream/h2"
)

// pingAfter is how long a connection may have been silent before it is asked for
// a sign of life ahead of the next request; pingWait is how long that may take.
// It is not asked in between: servers of gRPC end connections that ping without
// having requests.
const (
	pingAfter = 10 * time.Second
	pingWait  = 5 * time.Second
)

// A shared connection carries the requests of many Calls at once (HTTP/2).
type shared struct {
	*h2.Conn
	ident ident

	// Guarded by sharedPool.mu.
	users     int
	requests  int             // begun on it
	retired   bool            // the last user closes it
	idleSince time.Time       // while there are no users
	keepalive model.Keepalive // of its last user
}

// A sharedPool is the shared connections to one address.
type sharedPool struct {
	mu     sync.Mutex
	closed bool
	conns  []*shared
	dials  map[ident]*dial // under way
}

// A dial makes a connection that others wait for, too.
type dial struct {
	done chan struct{}
	err  error // valid when done is closed
}

// take returns a connection for id that has room, with the room reserved; nil:
// there is none. What cannot be used any more is dropped.
func (p *sharedPool) take(id *ident) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ended []*shared
	defer func() { p.drop(ended) }()
	for _, s := range p.conns {
		if s.ident != *id {
			continue
		}
		if s.Reserve() {
			s.users++
			s.requests++
			return s
		}
		if s.Ended() {
			ended = append(ended, s)
		}
	}
	return nil
}

// drop takes connections out. p.mu is held.
func (p *sharedPool) drop(ended []*shared) {
	for _, s := range ended {
		p.conns = slices.DeleteFunc(p.conns, func(o *shared) bool { return o == s })
		s.retire()
	}
}

// retire makes s end when nobody uses it. sharedPool.mu is held.
func (s *shared) retire() {
	s.retired = true
	s.Retire()
	if s.users == 0 {
		s.Close()
	}
}

// give ends one use of s under the settings of the upstream that used it.
func (p *sharedPool) give(s *shared, k *model.Keepalive, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
	s.idleSince, s.keepalive = now, *k
	if !s.retired && (p.closed || k.IdleTimeout <= 0 || s.requests >= k.Requests) {
		p.drop([]*shared{s})
		return
	}
	if s.retired && s.users == 0 {
		s.Close()
	}
}

// discard ends s at once: its node does not answer.
func (p *sharedPool) discard(s *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Close()
	p.drop([]*shared{s})
}

// sweep closes what has been idle for long enough.
func (p *sharedPool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var expired []*shared
	for _, s := range p.conns {
		if s.users == 0 && now.Sub(s.idleSince) >= s.keepalive.IdleTimeout || s.Ended() {
			expired = append(expired, s)
		}
	}
	p.drop(expired)
}

// idle is the number of connections that nobody uses.
func (p *sharedPool) idle() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.conns {
		if s.users == 0 {
			n++
		}
	}
	return n
}

func (p *sharedPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop(slices.Clone(p.conns))
}

// open returns a connection for id with room reserved. Whoever comes while one
// is being made waits for it instead of making another.
func (p *sharedPool) open(ctx context.Context, id ident, connect func() (*h2.Conn, error)) (*shared, error) {
	for {
		if s := p.take(&id); s != nil {
			return s, nil
		}
		p.mu.Lock()
		d := p.dials[id]
		if d == nil {
			break
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.done:
		}
		// Whoever dialled may have lost interest; that says nothing of the node.
		if d.err != nil && !errors.Is(d.err, context.Canceled) {
			return nil, d.err
		}
	}
	d := &dial{done: make(chan struct{})}
	if p.dials == nil {
		p.dials = map[ident]*dial{}
	}
	p.dials[id] = d
	p.mu.Unlock()
	conn, err := connect()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dials, id)
	d.err = err
	defer close(d.done)
	if err != nil {
		return nil, err
	}
	return p.add(conn, id), nil
}

// add makes conn one that others share. p.mu is held.
func (p *sharedPool) add(conn *h2.Conn, id ident) *shared {
	s := &shared{Conn: conn, ident: id, users: 1, requests: 1}
	conn.Reserve()
	if s.retired = p.closed; !p.closed {
		p.conns = append(p.conns, s)
	}
	return s
}

// keptShared is keptConn for connections that are shared.
func (c *Call) keptShared() *conn {
	for {
		s := c.end.pool.shared.take(&c.id)
		if s == nil {
			return nil
		}
		c.reused = true
		c.Tries[len(c.Tries)-1].Addr = c.end.addr
		conn := c.stream(s)
		if c.began.Sub(s.Heard()) < pingAfter || c.ping(s) {
			return conn
		}
		c.end.pool.shared.discard(s)
		conn.close()
	}
}

func (c *Call) ping(s *shared) bool {
	ctx, cancel := context.WithTimeout(context.Background(), min(pingWait, c.timeout.Connect))
	defer cancel()
	c.connecting(cancel)
	defer c.connecting(nil)
	return s.Ping(ctx) == nil || c.isAborted()
}

// dialShared is dial for connections that are shared; unless kept, this one is
// not.
func (e *endpoint) dialShared(ctx context.Context, c *Call, kept bool) (*conn, error) {
	id := c.id
	id.sni = strings.Clone(id.sni) // the request's memory does not last
	connect := func() (*h2.Conn, error) { return e.connectShared(ctx, c, &id) }
	p := &e.pool.shared
	if kept {
		s, err := p.open(ctx, id, connect)
		if err != nil {
			return nil, err
		}
		return c.stream(s), nil
	}
	conn, err := connect()
	if err != nil {
		return nil, err
	}
	conn.Reserve()
	return c.stream(&shared{Conn: conn, ident: id, users: 1, requests: 1, retired: true}), nil
}

// connectShared makes a connection. ctx bounds all of it.
func (e *endpoint) connectShared(ctx context.Context, c *Call, id *ident) (*h2.Conn, error) {
	tcp, err := c.open(ctx, e.addr)
	if err != nil {
		return nil, err
	}
	nc := net.Conn(tcp)
	if id.tls {
		t := tls.Client(nc, c.up.tls.config(&c.up.env, id, e.addr, c.cert))
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		if p := t.ConnectionState().NegotiatedProtocol; p != "" && p != "h2" {
			t.Close()
			return nil, fmt.Errorf("the node wants to speak %s, not HTTP/2", p)
		}
		nc = t
	}
	return c.up.env.Pools.http2.NewConn(ctx, nc)
}
