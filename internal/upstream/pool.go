package upstream

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/upstream/h2"
)

// sweepEvery is how often idle connections are looked through for expired ones.
const sweepEvery = time.Second

// Pools are what upstreams share: the idle connections of the process to all
// nodes, and by Env.Owner what the successive forms of one object know. A pool
// belongs to an address, not to an upstream: two upstreams with a common node
// share it, and an upstream that is replaced leaves it to its successor. A
// connection is reused only for what it was made for: scheme, TLS server name,
// client certificate and its verification.
//
// The keepalive settings stay the upstream's own. They are applied to a
// connection when the upstream that used it gives it back: that upstream's size
// bounds the pool at this moment (the connection idle the longest makes room),
// its idle timeout says how long this connection may wait, its number of
// requests whether the connection is kept at all. An upstream with idle timeout
// 0 neither gives nor takes. Sizes are per process, not per worker.
type Pools struct {
	mu       sync.Mutex
	byAddr   map[netip.AddrPort]*pool
	families map[string]*family
	names    *resolve.Cache // nil: not needed yet
	closed   bool
	stop     chan struct{}
	done     chan struct{}

	sessions tls.ClientSessionCache
	http2    *h2.Transport
}

// NewPools starts the goroutine that closes expired connections.
func NewPools() *Pools {
	p := &Pools{
		byAddr:   map[netip.AddrPort]*pool{},
		families: map[string]*family{},
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		sessions: tls.NewLRUClientSessionCache(maxSessions),
		http2:    h2.NewTransport(),
	}
	go p.janitor()
	return p
}

// Close closes all idle connections and ends the goroutine. Connections that
// are in use are closed when they are given back.
func (p *Pools) Close() {
	close(p.stop)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, q := range p.byAddr {
		q.close()
	}
	if p.names != nil {
		p.names.Close()
	}
}

// systemNames resolves names as the system does.
func (p *Pools) systemNames() *resolve.Cache {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = resolve.NewCache(resolve.Options{Lookup: resolve.System})
	}
	return p.names
}

// Idle is the number of idle connections.
func (p *Pools) Idle() int {
	sum := 0
	for _, q := range p.all() {
		q.mu.Lock()
		sum += q.count
		q.mu.Unlock()
		sum += q.shared.idle()
	}
	return sum
}

// Len is the number of nodes that upstreams have.
func (p *Pools) Len() int { return len(p.all()) }

func (p *Pools) all() []*pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pool, 0, len(p.byAddr))
	for _, q := range p.byAddr {
		all = append(all, q)
	}
	return all
}

func (p *Pools) janitor() {
	defer close(p.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			for _, q := range p.all() {
				q.sweep(now)
				q.shared.sweep(now)
			}
		}
	}
}

// use returns the pool of an address and counts one more user.
func (p *Pools) use(at netip.AddrPort) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.byAddr[at]
	if q == nil {
		q = &pool{addr: at, closed: p.closed}
		p.byAddr[at] = q
	}
	q.users++
	return q
}

// drop counts one user less; the last one closes the pool.
func (p *Pools) drop(q *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(p.byAddr, q.addr)
		q.close()
	}
}

// A pool is the idle connections to one address, the last used first.
type pool struct {
	addr  netip.AddrPort
	users int // guarded by Pools.mu

	mu             sync.Mutex
	closed         bool
	newest, oldest *conn
	count          int

	shared sharedPool
}

// take returns the connection for id that was used last, or nil. The caller
// probes it.
func (p *pool) take(id *ident, now time.Time) *conn {
	p.mu.Lock()
	var expired, found *conn
	for c := p.newest; c != nil && found == nil; {
		older := c.older
		switch {
		case !c.expires.After(now):
			p.unlink(c)
			c.older, expired = expired, c
		case c.ident == *id:
			p.unlink(c)
			found = c
		}
		c = older
	}
	p.mu.Unlock()
	closeAll(expired)
	return found
}

// put gives c back under the settings of the upstream that used it.
func (p *pool) put(c *conn, k *model.Keepalive, now time.Time) {
	if k.IdleTimeout <= 0 || k.Size <= 0 || c.requests >= k.Requests {
		c.close()
		return
	}
	c.expires = now.Add(k.IdleTimeout)
	drop := c
	p.mu.Lock()
	if !p.closed {
		drop = nil
		if p.count >= k.Size {
			drop = p.oldest
			p.unlink(drop)
		}
		p.link(c)
	}
	p.mu.Unlock()
	if drop != nil {
		drop.close()
	}
}

// sweep closes what has expired.
func (p *pool) sweep(now time.Time) {
	p.mu.Lock()
	var expired *conn
	for c := p.oldest; c != nil; {
		newer := c.newer
		if !c.expires.After(now) {
			p.unlink(c)
			c.older, expired = expired, c
		}
		c = newer
	}
	p.mu.Unlock()
	closeAll(expired)
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.newest
	p.newest, p.oldest, p.count = nil, nil, 0
	p.mu.Unlock()
	closeAll(all)
	p.shared.close()
}

// closeAll closes a list linked by older.
func closeAll(c *conn) {
	for c != nil {
		older := c.older
		c.close()
		c = older
	}
}

func (p *pool) link(c *conn) {
	c.newer, c.older = nil, p.newest
	if p.newest != nil {
		p.newest.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	p.count++
}

func (p *pool) unlink(c *conn) {
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		p.newest = c.older
	}
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	c.newer, c.older = nil, nil
	p.count--
}
