package resolve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Cache needs.
type Options struct {
	// Lookup asks what a name stands for; it ends by itself or with the context.
	Lookup func(ctx context.Context, name string) (Answer, error)

	// Valid is how long an answer is used; 0: its TTL.
	Valid time.Duration

	Log *slog.Logger // nil: none
}

const (
	// retryAfter is how long a failure is remembered.
	retryAfter = time.Second

	// grace is how long after its end an answer is still used while the next is
	// being asked for, and patience how long a request then waits for that.
	grace    = time.Second
	patience = time.Second

	// maxValid bounds TTLs, which servers may get wrong.
	maxValid = 24 * time.Hour

	// maxLookups is how many names are looked up at the same time.
	maxLookups = 64
)

// A Cache keeps the answers for names that are in use. While a name is asked
// for, its answer is renewed in the background shortly before it expires; a name
// that nobody asks for is left alone. A failure to find out changes nothing but
// when to ask again; that a name does not exist any more is an answer.
type Cache struct {
	opt    Options
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}

	mu     sync.Mutex
	names  map[string]*Name
	closed bool
	wg     sync.WaitGroup // lookups
}

// NewCache makes a Cache; Close ends it.
func NewCache(o Options) *Cache {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cache{opt: o, slots: make(chan struct{}, maxLookups), names: map[string]*Name{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends all lookups and waits for them. Names that are still held fail to
// renew.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, n := range c.names {
		n.timer.Stop()
	}
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Len is the number of names that are held.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

// Each calls f with every name that an answer is known for, and until when that is
// used.
func (c *Cache) Each(f func(name string, a *Answer, until time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.names {
		if s := n.state.Load(); s != nil && s.answer != nil {
			f(name, s.answer, s.until)
		}
	}
}

// Use returns the Name for name; Release must follow.
func (c *Cache) Use(name string) *Name {
	name = strings.ToLower(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.names[name]
	if n == nil {
		n = &Name{cache: c, name: name}
		n.timer = time.AfterFunc(maxValid, n.tick)
		n.timer.Stop()
		c.names[name] = n
	}
	n.users++
	return n
}

// A Name is one name in use. All methods may be called by many goroutines.
type Name struct {
	cache *Cache
	name  string
	users int // guarded by cache.mu
	timer *time.Timer

	state atomic.Pointer[state]
	asked atomic.Bool // since the last lookup

	mu      sync.Mutex
	pending chan struct{} // closed at the end of the lookup under way; nil: none
}

// state is what is known of a name.
type state struct {
	answer  *Answer // nil: none
	err     error   // why there is none
	until   time.Time
	failing bool // the last lookup failed; answer is from before
}

// Release ends one Use.
func (n *Name) Release() {
	c := n.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(c.names, n.name)
		n.timer.Stop()
	}
}

// Get returns what the name stands for at the time now: the same pointer until
// that changes. It waits only while nothing usable is known, and then at most
// until ctx ends. It does not allocate while an answer is valid.
func (n *Name) Get(ctx context.Context, now time.Time) (*Answer, error) {
	if s := n.fresh(now); s != nil {
		return s.answer, s.err
	}
	return n.renew(ctx, now)
}

// Known is Get that does not wait: nil where Get would wait or fail.
func (n *Name) Known(now time.Time) *Answer {
	if s := n.fresh(now); s != nil {
		return s.answer
	}
	return nil
}

// fresh is what is known, unless that has expired.
func (n *Name) fresh(now time.Time) *state {
	if !n.asked.Load() {
		n.asked.Store(true)
	}
	if s := n.state.Load(); s != nil && now.Before(s.until) {
		return s
	}
	return nil
}

// renew starts a lookup, if none is under way, and waits for it unless there is
// an answer that serves meanwhile.
func (n *Name) renew(ctx context.Context, now time.Time) (*Answer, error) {
	done := n.lookup()
	s := n.state.Load()
	var enough <-chan time.Time
	if s != nil && s.answer != nil {
		if s.failing || now.Sub(s.until) < grace {
			return s.answer, nil
		}
		t := time.NewTimer(patience)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-done:
		s = n.state.Load()
	case <-enough:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.answer, s.err
}

// tick renews the answer ahead of its end if it was asked for.
func (n *Name) tick() {
	if n.asked.Swap(false) {
		n.lookup()
	}
}

// lookup makes sure that a lookup is under way; the channel is closed at its
// end.
func (n *Name) lookup() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending != nil {
		return n.pending
	}
	done := make(chan struct{})
	c := n.cache
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.wg.Add(1)
	}
	c.mu.Unlock()
	if closed {
		n.keep(Answer{}, context.Canceled)
		close(done)
		return done
	}
	n.pending = done
	go func() {
		defer c.wg.Done()
		n.run()
		n.mu.Lock()
		n.pending = nil
		n.mu.Unlock()
		close(done)
	}()
	return done
}

func (n *Name) run() {
	c := n.cache
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.ctx.Done():
		n.keep(Answer{}, c.ctx.Err())
		return
	}
	n.keep(c.opt.Lookup(c.ctx, n.name))
}

// keep notes what a lookup has found and when the next is due.
func (n *Name) keep(a Answer, err error) {
	c := n.cache
	if err == nil && len(a.Records) == 0 {
		err = ErrNotFound
	}
	old := n.state.Load()
	now := time.Now()
	next := &state{until: now.Add(retryAfter)}
	ahead := retryAfter
	switch {
	case err == nil:
		valid := min(a.TTL, maxValid)
		if c.opt.Valid > 0 {
			valid = c.opt.Valid
		}
		next.answer, next.until = &a, now.Add(valid)
		if old != nil && old.answer != nil && old.answer.equal(&a) {
			next.answer = old.answer
		}
		ahead = valid - min(valid/10, 5*time.Second)
	case errors.Is(err, ErrNotFound) || old == nil || old.answer == nil:
		next.err = err
	default:
		next.answer, next.failing = old.answer, true
	}
	n.say(old, next, err)
	n.state.Store(next)
	c.mu.Lock()
	if n.users > 0 && !c.closed {
		n.timer.Reset(ahead)
	}
	c.mu.Unlock()
}

// say logs what an operator would want to know, once.
func (n *Name) say(old, next *state, err error) {
	log := n.cache.opt.Log
	switch {
	case n.cache.ctx.Err() != nil:
	case next.failing && !old.failing:
		log.Warn("a name cannot be resolved, its last addresses stay in use", "name", n.name, "err", err)
	case next.err != nil && (old == nil || old.err == nil):
		log.Error("a name does not resolve", "name", n.name, "err", err)
	case old != nil && (old.failing || old.err != nil) && next.err == nil && !next.failing:
		log.Info("a name resolves again", "name", n.name)
	}
}
