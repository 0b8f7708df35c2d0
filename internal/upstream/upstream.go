package upstream

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"weir/internal/health"
	"weir/internal/model"
	"weir/internal/resolve"
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
	Log      *slog.Logger // nil: none

	// Owner is the object that the upstream stands in, for instance
	// "upstreams/1", with whatever tells it from an earlier one of that name. Its
	// successive forms share health and load by it; empty: nothing is shared.
	Owner string

	// Now is the clock; nil: time.Now. Deadlines of sockets are derived from it,
	// so it may be counted but must run like the real one.
	Now func() time.Time

	// Names resolves the names of nodes; nil: as the system does.
	Names *resolve.Cache

	// Discovery finds the nodes of services, by discovery_type.
	Discovery map[string]Discovery

	// Start returns where, in [0, n), a balancer's sequence begins, or which of n
	// nodes it looks at; nil: at random.
	Start func(n int) int

	// NoChecks turns health checks off.
	NoChecks bool

	// Roots are trusted where certificates are verified; nil: the system's.
	Roots *x509.CertPool

	// OpenKey returns a stored private key in plain text; nil: as it is.
	OpenKey func(stored string) (pem string, ok bool)

	// Certificate returns the client certificate that has the id, the same
	// pointer until it changes; nil: there are none.
	Certificate func(id string) (*Certificate, error)
}

// An Upstream is a compiled set of nodes. But for what is known of its nodes it
// does not change; all methods may be called by many goroutines.
//
// What every request asks of it stands first: of many upstreams none is in a cache.
type Upstream struct {
	set       atomic.Pointer[nodeSet]
	now       func() time.Time
	scheme    string
	kind      string  // of its balancer
	service   Service // nil: the nodes are configured
	timeout   model.Timeout
	keepalive model.Keepalive
	checks    *health.Checks // nil: none
	tunnel    *model.Tunnel  // nil: none
	checking  atomic.Bool
	passHost  passHost
	maxHead   int

	env          Env
	id           string
	hashOn, key  string
	host         string
	retries      int // −1: one try per node
	retryTimeout time.Duration
	retryOn      *model.RetryOn // nil: every failure
	idle         time.Duration  // of streams
	tls          tlsSettings
	family       *family
	checkType    string // of configured checks, even if they are off
	refs         atomic.Int64

	mu     sync.Mutex // held while set is replaced; guards closed
	closed bool
}

// A passHost says which Host a node gets (APISIX's pass_host).
type passHost uint8

const (
	hostOfClient passHost = iota
	hostOfNode
	hostOfDomain
	hostAsTold
)

func parsePassHost(s string) passHost {
	switch s {
	case "node":
		return hostOfNode
	case "domain":
		return hostOfDomain
	case "rewrite":
		return hostAsTold
	}
	return hostOfClient
}

// Compile prepares m. What the scheme or discovery of m needs and this version
// does not have is an error that wraps ErrUnsupported; an unknown balancer type
// is none, but answers 502. The Upstream uses the pools of its nodes until the
// last Release or Close.
func Compile(m *model.Upstream, env Env) (*Upstream, error) {
	env.fill()
	u := &Upstream{
		env:          env,
		id:           m.ID,
		now:          env.Now,
		scheme:       unique.Make(cmp.Or(m.Scheme, "http")).Value(), // one memory for all
		kind:         cmp.Or(m.Type, roundRobinType),
		hashOn:       cmp.Or(m.HashOn, "vars"),
		key:          m.Key,
		passHost:     parsePassHost(m.PassHost),
		host:         m.Host,
		retries:      -1,
		retryTimeout: m.RetryTimeout,
		retryOn:      m.RetryOn,
		timeout:      override(m.Timeout, override(env.Defaults.Timeout, defaultTimeout)),
		idle:         idle(m.Timeout),
		keepalive:    env.Defaults.Keepalive,
		tunnel:       m.Tunnel,
		maxHead:      m.MaxHead,
	}
	if m.Retries != nil {
		u.retries = *m.Retries
	}
	if m.Keepalive != nil {
		u.keepalive = *m.Keepalive
	} else if u.keepalive == (model.Keepalive{}) {
		u.keepalive = defaultKeepalive
	}
	if err := u.prepare(m); err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.name(), err)
	}
	u.family = env.Pools.join(env.Owner)
	nodes, list := m.Nodes, (*NodeList)(nil)
	if u.service != nil {
		if list = u.service.Known(env.Now()); list != nil {
			nodes = list.Nodes
		}
	}
	u.set.Store(u.newSet(nodes, list))
	u.refs.Store(1)
	u.family.adopt(u)
	return u, nil
}

func (e *Env) fill() {
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Names == nil {
		e.Names = e.Pools.systemNames()
	}
	if e.Start == nil {
		e.Start = rand.IntN
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
}

// prepare does what may fail.
func (u *Upstream) prepare(m *model.Upstream) (err error) {
	if !slices.Contains([]string{"http", "https", "grpc", "grpcs", "tcp", "tls", "udp"}, u.scheme) {
		return fmt.Errorf("scheme %q: %w", m.Scheme, ErrUnsupported)
	}
	if u.tls, err = parseTLS(m.TLS, &u.env); err != nil {
		return err
	}
	if err := u.tls.trust(m.CAs); err != nil {
		return err
	}
	if m.Checks != nil {
		checks, err := health.Parse(m.Checks)
		if err != nil {
			return err
		}
		u.checkType = checks.Active.Type
		if !u.env.NoChecks {
			u.checks = checks
		}
	}
	if m.ServiceName != "" || m.DiscoveryType != "" {
		u.service, err = u.env.discover(m)
	}
	return err
}

// name tells the upstream in logs.
func (u *Upstream) name() string {
	owner, _, _ := strings.Cut(u.env.Owner, "@")
	return cmp.Or(owner, u.id)
}

// HashKey says what the key of a chash upstream is made of (APISIX's hash_on and
// key); ok is false for other types.
func (u *Upstream) HashKey() (on, key string, ok bool) {
	return u.hashOn, u.key, u.kind == chashType
}

// The defaults of APISIX: timeout of upstreams, and
// nginx_config.http.upstream of config.yaml. Both are immutable.
var (
	defaultTimeout   = model.Timeout{Connect: 60 * time.Second, Send: 60 * time.Second, Read: 60 * time.Second}
	defaultKeepalive = model.Keepalive{Size: 320, IdleTimeout: 60 * time.Second, Requests: 1000}
)

// balances reports whether the balancer type exists.
func (u *Upstream) balances() bool {
	switch u.kind {
	case roundRobinType, chashType, leastConn, ewma:
		return true
	}
	return false
}

// Health reports what checks have found; ok is false if none are configured.
func (u *Upstream) Health() (kind string, nodes []health.Node, ok bool) {
	return u.checkType, u.family.nodes(), u.checkType != ""
}

// checked is the address that is checked for an endpoint of n.
func (u *Upstream) checked(n *node, e *endpoint) health.Address {
	a := health.Address{Addr: e.at, Name: n.domain}
	if p := u.checks.Active.Port; p != 0 {
		a.Addr = netip.AddrPortFrom(e.at.Addr(), uint16(p))
	}
	if u.passHost == hostAsTold {
		a.Name = u.host
	}
	return a
}

func defaultPort(scheme string) int {
	if scheme == "https" || scheme == "grpcs" {
		return 443
	}
	return 80
}

// override returns t with zero fields taken from base.
func override(t, base model.Timeout) model.Timeout {
	return model.Timeout{
		Connect: cmp.Or(t.Connect, base.Connect),
		Send:    cmp.Or(t.Send, base.Send),
		Read:    cmp.Or(t.Read, base.Read),
	}
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
	// Checks look names up: they end before the nodes.
	u.env.Pools.leave(u)
	u.mu.Lock()
	u.closed = true
	u.set.Load().close()
	u.mu.Unlock()
	if u.service != nil {
		u.service.Close()
	}
}

// Close ends the use by the configuration. It is called once.
func (u *Upstream) Close() { u.Release() }

// A Summary is what an upstream does with requests.
type Summary struct {
	Scheme, Type string
	Retries      int // further tries after the first
	Timeout      model.Timeout
}

// Summary tells how requests of a route with the given timeouts, which may be
// nil, are sent.
func (u *Upstream) Summary(route *model.Timeout) Summary {
	s := Summary{Scheme: u.scheme, Type: u.kind, Retries: u.retries, Timeout: u.timeout}
	if s.Retries < 0 {
		s.Retries = max(len(u.set.Load().nodes)-1, 0)
	}
	if route != nil {
		s.Timeout = override(*route, u.timeout)
	}
	return s
}
