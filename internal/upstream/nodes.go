package upstream

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/health"
	"weir/internal/model"
	"weir/internal/resolve"
)

// Nodes are the addresses of u, host:port, as configured or discovered.
func (u *Upstream) Nodes() []string {
	set := u.set.Load()
	addrs := make([]string, len(set.nodes))
	for i, n := range set.nodes {
		addrs[i] = n.addr
	}
	return addrs
}

// A nodeSet is the nodes of an upstream at one time.
type nodeSet struct {
	list   *NodeList // what it was made from; nil: the configuration
	nodes  []*node
	one    [1]*node   // what nodes is, if it is not longer
	groups []balancer // by falling priority
	down   atomic.Bool
}

func (s *nodeSet) has(addr string) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.addr == addr })
}

func (s *nodeSet) close() {
	for _, n := range s.nodes {
		n.close()
	}
}

// A node is one member of an upstream: an address, or a name and so all of its
// addresses, which share its weight.
type node struct {
	ends   atomic.Pointer[endpoints] // nil: never resolved
	name   *resolve.Name             // nil: an address
	load   *load                     // nil: the balancer does not need it
	addr   string                    // host:port as configured
	index  int32
	port   uint16
	noPort bool      // the configuration leaves it to the scheme
	hosts  [2]string // for pass_host node, by scheme: without its default port
	domain string
	weight int
	up     *Upstream

	mu     sync.Mutex
	closed bool
}

// A fixedNode is a node that is an address, with that in one piece of memory.
type fixedNode struct {
	node
	ends endpoints
	list [1]*endpoint
	end  endpoint
}

// endpoints are the addresses of a node at one time.
type endpoints struct {
	answer *resolve.Answer // what they were made from; nil: the configuration
	list   []*endpoint
	next   atomic.Uint32
}

// An endpoint is one address of a node.
type endpoint struct {
	addr   string
	at     netip.AddrPort
	pool   *pool
	target atomic.Pointer[health.Target]
}

// pick returns the next address that is healthy, if one is, and not in failed;
// nil: there is none.
func (s *endpoints) pick(failed []*endpoint) *endpoint {
	if len(s.list) == 1 {
		if len(failed) > 0 {
			return nil
		}
		return s.list[0]
	}
	at := s.next.Add(1) - 1
	var other *endpoint
	for i := range s.list {
		e := s.list[(int(at)+i)%len(s.list)]
		switch {
		case slices.Contains(failed, e):
		case e.target.Load().Healthy():
			return e
		case other == nil:
			other = e
		}
	}
	return other
}

// newNode makes a node and takes the pool of its address.
func (u *Upstream) newNode(index int, m model.Node) *node {
	address, err := netip.ParseAddr(m.Host)
	if err != nil {
		n := new(node)
		n.describe(u, index, m)
		n.domain = m.Host
		n.name = u.env.Names.Use(m.Host)
		return n
	}
	n := new(fixedNode)
	n.describe(u, index, m)
	n.end.set(u, netip.AddrPortFrom(address, n.port))
	n.list[0] = &n.end
	n.ends.list = n.list[:]
	n.node.ends.Store(&n.ends)
	return &n.node
}

func (n *node) describe(u *Upstream, index int, m model.Node) {
	port := cmp.Or(m.Port, defaultPort(u.scheme))
	n.up, n.index, n.weight = u, int32(index), m.Weight
	n.addr = net.JoinHostPort(m.Host, strconv.Itoa(port))
	n.port, n.noPort = uint16(port), m.Port == 0
	for i, scheme := range [2]string{"http", "https"} {
		n.hosts[i] = n.addr
		if port == defaultPort(scheme) || u.passHost == hostOfDomain {
			n.hosts[i] = bracketed(m.Host)
		}
	}
	if u.kind == leastConn || u.kind == ewma {
		n.load = u.family.load(n.addr)
	}
}

func (u *Upstream) endpoint(at netip.AddrPort) *endpoint {
	e := new(endpoint)
	e.set(u, at)
	return e
}

func (e *endpoint) set(u *Upstream, at netip.AddrPort) {
	e.addr, e.at, e.pool = at.String(), at, u.env.Pools.use(at)
}

// bracketed is host as it stands in an authority.
func bracketed(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}

// close gives back what the node holds.
func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if s := n.ends.Load(); s != nil {
		for _, e := range s.list {
			n.up.env.Pools.drop(e.pool)
		}
	}
	if n.name != nil {
		n.name.Release()
	}
}

// healthy reports whether the node can be used as far as checks know.
func (n *node) healthy() bool {
	s := n.ends.Load()
	if s == nil {
		return true
	}
	for _, e := range s.list {
		if e.target.Load().Healthy() {
			return true
		}
	}
	return false
}

// known returns the addresses if they are known at the time now; else nil.
func (n *node) known(now time.Time) *endpoints {
	s := n.ends.Load()
	if n.name == nil {
		return s
	}
	a := n.name.Known(now)
	switch {
	case a == nil:
		return nil
	case s != nil && s.answer == a:
		return s
	}
	return n.follow(a)
}

// resolve returns the addresses; it may wait for them until ctx ends.
func (n *node) resolve(ctx context.Context) (*endpoints, error) {
	if n.name == nil {
		return n.ends.Load(), nil
	}
	a, err := n.name.Get(ctx, n.up.env.Now())
	if err != nil {
		return nil, err
	}
	if s := n.ends.Load(); s != nil && s.answer == a {
		return s, nil
	}
	return n.follow(a), nil
}

// follow makes the addresses of a the node's. Connections to addresses that are
// not among them are retired, the others stay.
func (n *node) follow(a *resolve.Answer) *endpoints {
	next := &endpoints{answer: a}
	n.mu.Lock()
	s := n.ends.Load()
	switch {
	case n.closed:
		// Whoever still uses the node keeps no connections.
		n.mu.Unlock()
		for _, r := range a.Records {
			at := netip.AddrPortFrom(r.Addr, n.port)
			next.list = append(next.list, &endpoint{addr: at.String(), at: at, pool: &pool{addr: at, closed: true}})
		}
		return next
	case s != nil && s.answer == a:
		n.mu.Unlock()
		return s
	}
	var old []*endpoint
	if s != nil {
		old = slices.Clone(s.list)
	}
	for _, r := range a.Records {
		at := netip.AddrPortFrom(r.Addr, n.port)
		i := slices.IndexFunc(old, func(e *endpoint) bool { return e.at == at })
		if i >= 0 {
			next.list = append(next.list, old[i])
			old = slices.Delete(old, i, i+1)
		} else {
			next.list = append(next.list, n.up.endpoint(at))
		}
	}
	n.ends.Store(next)
	for _, e := range old {
		n.up.env.Pools.drop(e.pool)
	}
	n.mu.Unlock()
	n.up.family.retarget(n.up)
	return next
}

// newSet makes the nodes and groups them by priority. list is nil for those of
// the configuration.
func (u *Upstream) newSet(nodes []model.Node, list *NodeList) *nodeSet {
	s := &nodeSet{list: list}
	s.nodes = s.one[:0]
	groups := map[int][]*node{}
	var priorities []int
	for i, m := range nodes {
		n := u.newNode(i, m)
		s.nodes = append(s.nodes, n)
		if groups[m.Priority] == nil {
			priorities = append(priorities, m.Priority)
		}
		groups[m.Priority] = append(groups[m.Priority], n)
	}
	slices.SortFunc(priorities, func(a, b int) int { return cmp.Compare(b, a) })
	for _, p := range priorities {
		if b := u.newBalancer(groups[p]); b != nil {
			s.groups = append(s.groups, b)
		}
	}
	return s
}
