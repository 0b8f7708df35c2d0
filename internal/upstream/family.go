package upstream

import (
	"context"
	"crypto/tls"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/health"
)

// A family is what the successive forms of one upstream object share: what is
// known of its nodes must not be forgotten when one of them changes.
type family struct {
	key   string // empty: of one Upstream alone
	users int    // guarded by Pools.mu

	mu      sync.Mutex
	current *Upstream // the latest form; nil: it is closed
	loads   map[string]*load
	checker *health.Checker
}

// join returns the family of that key and counts one more member.
func (p *Pools) join(key string) *family {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.families[key]
	if f == nil {
		f = &family{key: key, loads: map[string]*load{}}
		if key != "" {
			p.families[key] = f
		}
	}
	f.users++
	return f
}

// leave ends u's membership. The checks end with the last member.
func (p *Pools) leave(u *Upstream) {
	f := u.family
	p.mu.Lock()
	f.users--
	last := f.users == 0
	if last && f.key != "" {
		delete(p.families, f.key)
	}
	p.mu.Unlock()
	f.mu.Lock()
	if f.current == u {
		f.current = nil
	}
	var ended *health.Checker
	if last {
		ended, f.checker = f.checker, nil
	}
	f.mu.Unlock()
	if ended != nil {
		ended.Close()
	}
}

// adopt makes u the current form: checks that run go on with its nodes and its
// rules, or end if it has none.
func (f *family) adopt(u *Upstream) {
	f.mu.Lock()
	f.current = u
	f.forget(u)
	var ended *health.Checker
	switch {
	case f.checker == nil:
	case u.checks == nil:
		ended, f.checker = f.checker, nil
	default:
		f.checker.Change(u.checks)
		u.checking.Store(true)
		f.target(u)
	}
	f.mu.Unlock()
	if ended != nil {
		ended.Close()
	}
}

// forget drops the loads of nodes that u has not, unless requests are still on
// their way to them. f.mu is held.
func (f *family) forget(u *Upstream) {
	set := u.set.Load()
	for addr, l := range f.loads {
		if l.active.Load() == 0 && !set.has(addr) {
			delete(f.loads, addr)
		}
	}
}

// startChecks begins to check the nodes of u, at the first request to it.
func (f *family) startChecks(u *Upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != u || f.checker != nil {
		return
	}
	u.checking.Store(true)
	f.checker = health.New(health.Config{
		Name: u.name(), Refresh: f.refresh, TLS: f.tls, Log: u.env.Log,
	}, u.checks)
	f.target(u)
	f.checker.Start()
}

// retarget tells the checks that the addresses of u have changed.
func (f *family) retarget(u *Upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target(u)
}

// target makes the addresses of u what is checked. f.mu is held.
func (f *family) target(u *Upstream) {
	if f.current != u || f.checker == nil {
		return
	}
	var ends []*endpoint
	var addrs []health.Address
	for _, n := range u.set.Load().nodes {
		if s := n.ends.Load(); s != nil {
			for _, e := range s.list {
				ends = append(ends, e)
				addrs = append(addrs, u.checked(n, e))
			}
		}
	}
	for i, t := range f.checker.Set(addrs) {
		ends[i].target.Store(t)
	}
}

// refresh looks up names, so that checks follow them without requests.
func (f *family) refresh(ctx context.Context) {
	f.mu.Lock()
	u := f.current
	f.mu.Unlock()
	if u != nil {
		u.refresh(ctx)
	}
}

// tls is what checks of type https connect with.
func (f *family) tls() *tls.Config {
	f.mu.Lock()
	u := f.current
	f.mu.Unlock()
	if u == nil {
		return nil
	}
	return u.tls.forChecks(&u.env)
}

// nodes reports the checks' view; nil: they do not run.
func (f *family) nodes() []health.Node {
	f.mu.Lock()
	c := f.checker
	f.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Nodes()
}

// load returns what is known of the requests to a node.
func (f *family) load(addr string) *load {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.loads[addr]
	if l == nil {
		l = new(load)
		f.loads[addr] = l
	}
	return l
}

// A load is how busy a node is and how quick it has been.
type load struct {
	active atomic.Int64 // requests under way

	mu      sync.Mutex
	average float64 // seconds, decayed to the time of touched
	touched time.Time
}

// decay is the time in which an observation loses its weight by a factor of e;
// stale is when all are forgotten (APISIX's ewma balancer).
const (
	decay = 10 * time.Second
	stale = time.Minute
)

// score is the expected time of an answer in seconds, the less is known the
// lower.
func (l *load) score(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(now)
}

func (l *load) at(now time.Time) float64 {
	age := max(0, now.Sub(l.touched))
	if age >= stale {
		return 0
	}
	return l.average * math.Exp(-float64(age)/float64(decay))
}

// observe adds the time of one answer.
func (l *load) observe(took time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := 1.0
	if age := max(0, now.Sub(l.touched)); age < stale {
		fresh = 1 - math.Exp(-float64(age)/float64(decay))
	}
	l.average = l.at(now) + took.Seconds()*fresh
	l.touched = now
}
