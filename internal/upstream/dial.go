package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// How long an answer of the resolver is used, and how long a failure.
const (
	resolvedFor   = 5 * time.Second
	unresolvedFor = time.Second
)

// errUnresolved marks a node that has no address.
var errUnresolved = errors.New("name does not resolve")

// A name is the host of a node and its address: one, the first IPv4 address if
// there is one (APISIX balances over nodes, not over a name's addresses).
type name struct {
	host  string
	fixed netip.Addr // host is an address

	// lock has room for the one who looks up; the others wait for the answer.
	lock  chan struct{}
	addr  netip.Addr
	err   error
	until time.Time
}

func newName(host string) *name {
	n := &name{host: host, lock: make(chan struct{}, 1)}
	n.fixed, _ = netip.ParseAddr(host)
	return n
}

// resolve returns the address, or an error that wraps errUnresolved, or the
// context's.
func (n *name) resolve(ctx context.Context, env *Env) (netip.Addr, error) {
	if n.fixed.IsValid() {
		return n.fixed, nil
	}
	select {
	case n.lock <- struct{}{}:
		defer func() { <-n.lock }()
	case <-ctx.Done():
		return netip.Addr{}, ctx.Err()
	}
	now := env.Now()
	if now.Before(n.until) {
		return n.addr, n.err
	}
	addrs, err := env.Lookup(ctx, n.host)
	switch {
	case ctx.Err() != nil:
		return netip.Addr{}, ctx.Err()
	case err != nil:
		n.err, n.until = errors.Join(errUnresolved, err), now.Add(unresolvedFor)
	case len(addrs) == 0:
		n.err, n.until = errUnresolved, now.Add(unresolvedFor)
	default:
		n.addr, n.err, n.until = preferred(addrs), nil, now.Add(resolvedFor)
	}
	return n.addr, n.err
}

func preferred(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a.Unmap().Is4() {
			return a.Unmap()
		}
	}
	return addrs[0]
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// dial connects to the node of p. ctx bounds resolving and connecting.
func (p *pool) dial(ctx context.Context, env *Env) (*conn, error) {
	a, err := p.name.resolve(ctx, env)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address(a, p.port))
	if err != nil {
		return nil, err
	}
	return newConn(nc.(*net.TCPConn), p, env.Now), nil
}
