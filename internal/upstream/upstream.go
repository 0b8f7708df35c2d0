package upstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/model"
)

// Defaults are what an upstream that says nothing gets.
type Defaults struct {
	Keepalive model.Keepalive // zero: 320 connections, 60 s, 1000 requests
	Timeout   model.Timeout   // zero fields: 60 s
}

// Env is what Compile and the calls may use of the outside. Pools is required.
type Env struct {
	Pools    *Pools
	Defaults Defaults
	Log      *slog.Logger

	// Now is the clock; nil: time.Now. Deadlines of sockets are derived from it,
	// so it may be counted but must run like the real one.
	Now func() time.Time

	// Lookup resolves a name; nil: net.DefaultResolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// Start returns where, in [0, n), a balancer's sequence begins; nil: at
	// random.
	Start func(n int) int
}

// An Upstream is a compiled set of nodes. It does not change but for its
// balancers' positions; all methods may be called by many goroutines.
type Upstream struct {
	env          Env
	id           string
	nodes        []*node
	groups       []*roundRobin // by falling priority
	passHost     string
	host         string
	retries      int // −1: one try per node
	retryTimeout time.Duration
	timeout      model.Timeout
	keepalive    model.Keepalive
	refs         atomic.Int64
}

// A node is one address of an upstream.
type node struct {
	index  int32
	addr   string // host:port
	host   string // for pass_host node: without the scheme's default port
	weight int
	pool   *pool
}

// Compile prepares m. What the scheme, balancer type or discovery of m needs
// and this version does not have is an error that wraps ErrUnsupported. The
// Upstream uses the pools of its nodes until the last Release or Close.
func Compile(m *model.Upstream, env Env) (*Upstream, error) {
	if err := supported(m); err != nil {
		return nil, fmt.Errorf("upstream %s: %w", m.ID, err)
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Lookup == nil {
		env.Lookup = lookup
	}
	if env.Start == nil {
		env.Start = rand.IntN
	}
	u := &Upstream{
		env:          env,
		id:           m.ID,
		passHost:     m.PassHost,
		host:         m.Host,
		retries:      -1,
		retryTimeout: m.RetryTimeout,
		timeout:      override(m.Timeout, override(env.Defaults.Timeout, defaultTimeout)),
		keepalive:    env.Defaults.Keepalive,
	}
	if m.Retries != nil {
		u.retries = *m.Retries
	}
	if m.Keepalive != nil {
		u.keepalive = *m.Keepalive
	} else if u.keepalive == (model.Keepalive{}) {
		u.keepalive = defaultKeepalive
	}
	u.setNodes(m.Nodes)
	u.refs.Store(1)
	return u, nil
}

// The defaults of APISIX: timeout of upstreams, and
// nginx_config.http.upstream of config.yaml. Both are immutable.
var (
	defaultTimeout   = model.Timeout{Connect: 60 * time.Second, Send: 60 * time.Second, Read: 60 * time.Second}
	defaultKeepalive = model.Keepalive{Size: 320, IdleTimeout: 60 * time.Second, Requests: 1000}
)

// defaultPort is that of scheme http.
const defaultPort = 80

func supported(m *model.Upstream) error {
	switch {
	case m.Scheme != "" && m.Scheme != "http":
		return fmt.Errorf("scheme %q: %w", m.Scheme, ErrUnsupported)
	case m.Type != "" && m.Type != "roundrobin":
		return fmt.Errorf("type %q: %w", m.Type, ErrUnsupported)
	case m.DiscoveryType != "" || m.ServiceName != "":
		return fmt.Errorf("discovery_type %q: %w", m.DiscoveryType, ErrUnsupported)
	}
	return nil
}

// override returns t with zero fields taken from base.
func override(t, base model.Timeout) model.Timeout {
	return model.Timeout{
		Connect: cmp.Or(t.Connect, base.Connect),
		Send:    cmp.Or(t.Send, base.Send),
		Read:    cmp.Or(t.Read, base.Read),
	}
}

// setNodes makes the nodes, takes their pools, and groups them by priority.
func (u *Upstream) setNodes(nodes []model.Node) {
	groups := map[int][]*node{}
	for i, m := range nodes {
		port := cmp.Or(m.Port, defaultPort)
		n := &node{
			index:  int32(i),
			addr:   net.JoinHostPort(m.Host, strconv.Itoa(port)),
			weight: m.Weight,
			pool:   u.env.Pools.use("http", m.Host, port),
		}
		n.host = n.addr
		if port == defaultPort {
			n.host = bracketed(m.Host)
		}
		u.nodes = append(u.nodes, n)
		groups[m.Priority] = append(groups[m.Priority], n)
	}
	priorities := make([]int, 0, len(groups))
	for p := range groups {
		priorities = append(priorities, p)
	}
	slices.SortFunc(priorities, func(a, b int) int { return cmp.Compare(b, a) })
	for _, p := range priorities {
		if b := newRoundRobin(groups[p], u.env.Start); b != nil {
			u.groups = append(u.groups, b)
		}
	}
}

// bracketed is host as it stands in an authority.
func bracketed(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}

// pick chooses the next node that is not in tried; nil: there is none. A single
// node is taken as it is, whatever its weight and however often it was tried
// (APISIX has no balancer then).
func (u *Upstream) pick(tried []int32) *node {
	if len(u.nodes) == 1 {
		return u.nodes[0]
	}
	for _, g := range u.groups {
		if i := g.pick(tried); i >= 0 {
			return u.nodes[i]
		}
	}
	return nil
}

// Acquire makes u outlive its Close until Release: for a stream that goes on
// after the configuration it was started under is gone. The caller holds u by
// another reference when it calls.
func (u *Upstream) Acquire() { u.refs.Add(1) }

// Release ends one Acquire. The last one gives the nodes' pools back: idle
// connections to nodes that no other upstream has are closed.
func (u *Upstream) Release() {
	if u.refs.Add(-1) != 0 {
		return
	}
	for _, n := range u.nodes {
		u.env.Pools.drop(n.pool)
	}
}

// Close ends the use by the configuration. It is called once.
func (u *Upstream) Close() { u.Release() }
