package portal

import (
	"context"
	"sync"
	"time"

	"weir/internal/monotonic"
)

// hosts are what the lazy loader knows of hosts.
type hosts struct {
	until sync.Map // host to time.Time until which it is fresh

	slots slots // of hosts that were never loaded
	own   slots // of those that were: a flood of names does not keep them waiting

	crowded monotonic.Seldom // a load that found no slot
	unread  monotonic.Seldom // a host of which nothing can be read

	mu      sync.Mutex
	flights map[string]*flight // by host; of a host that waits to be loaded, or is
}

// A flight is a load of a host that requests wait for.
type flight struct {
	done  chan struct{}
	err   error
	begun bool
	next  *flight // waits for its end; nil: none
}

// slots are of loads that run.
type slots chan struct{}

// enter waits for a slot no longer than a request waits for a load: after that
// nobody does who has had it wait.
func (s slots) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostWait)
	defer cancel()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) leave() { <-s }

// loadsAtOnce bounds how many hosts are loaded at the same time, of those that were
// loaded before and of the others: clients choose their names.
const loadsAtOnce = 16

// forever is how long a host is fresh whose configuration is never loaded anew.
const forever = 100 * 365 * 24 * time.Hour

// expiry is until when what was loaded is fresh.
func (s *Source) expiry(out *loaded) time.Time {
	ttl := s.cfg.TTL
	if out.ttl != nil {
		ttl = *out.ttl
	}
	if ttl < 0 {
		ttl = forever
	}
	return s.cfg.Now().Add(ttl)
}

// loaded notes until when the hosts of what was loaded are fresh, and of what
// stays in force because it cannot be read.
func (h *hosts) loaded(out *loaded, now *state, until time.Time) {
	if out.whole {
		h.until.Clear()
	}
	for _, v := range out.services {
		for _, host := range v.Hosts {
			h.until.Store(host, until)
		}
	}
	if len(out.unread) == 0 {
		return
	}
	for id := range reasons(now.unread) {
		for _, host := range now.byID[id].Hosts {
			if out.whole || host == out.host {
				h.until.Store(host, until)
			}
		}
	}
}

// fresh says that the configuration of a host need not be loaded.
func (s *Source) fresh(host string) (known, fresh bool) {
	until, known := s.hosts.until.Load(host)
	return known, known && s.cfg.Now().Before(until.(time.Time))
}

// Want returns when the configuration of a host (lower case, without port) is in
// force, if there is one: at once if it was loaded not longer ago than it may be
// kept, or by another loader than the lazy one. Several that want one host share
// its load. An error says that it could not be loaded; what was loaded before
// stays in force, and, unless nothing may be kept, those who want it then do not
// wait for the next try.
func (s *Source) Want(ctx context.Context, host string) error {
	if !s.cfg.Lazy {
		return nil
	}
	known, fresh := s.fresh(host)
	if fresh {
		return nil
	}
	f := s.fly(host)
	if known && s.cfg.TTL != 0 && s.failing() {
		return nil // where nothing may be kept every request asks, whatever came of the last one
	}
	wait := time.NewTimer(hostWait)
	defer wait.Stop()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		return errEnded
	case <-wait.C:
		return context.DeadlineExceeded
	}
}

// failing says that the last load failed.
func (s *Source) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Problem != ""
}

// fly returns the load that a request for a host waits for. A load that has begun
// may have read what is old now: where nothing may be kept, the next one is it.
func (s *Source) fly(host string) *flight {
	key := host
	if !s.origin.byHost() {
		key = "" // the answer is the same for every host
	}
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	f := s.hosts.flights[key]
	switch {
	case f == nil:
		f = &flight{done: make(chan struct{})}
		s.hosts.flights[key] = f
		s.start(key, f)
	case f.begun && s.cfg.TTL == 0:
		if f.next == nil {
			f.next = &flight{done: make(chan struct{})}
		}
		f = f.next
	}
	return f
}

// start runs a load and those that wait for its end.
func (s *Source) start(key string, f *flight) {
	if !s.background(func(ctx context.Context) {
		for f != nil {
			f = s.run(ctx, key, f)
		}
	}) {
		delete(s.hosts.flights, key)
		f.err = errEnded
		close(f.done)
	}
}

// run runs a load and returns the next one.
func (s *Source) run(ctx context.Context, key string, f *flight) *flight {
	h := &s.hosts
	slots := h.slots
	if _, known := h.until.Load(key); known {
		slots = h.own
	}
	if f.err = slots.enter(ctx); f.err == nil {
		defer slots.leave()
		h.mu.Lock()
		f.begun = true
		h.mu.Unlock()
		f.err = s.loadHost(ctx, key)
	} else if ctx.Err() == nil && s.hosts.crowded.Ready(time.Now()) {
		s.cfg.Log.Warn("3scale configuration: so many hosts are asked for that one was not loaded in time", "host", key)
	}
	defer close(f.done)
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.next == nil {
		delete(h.flights, key)
	} else {
		h.flights[key] = f.next
	}
	return f.next
}

func (s *Source) loadHost(ctx context.Context, host string) error {
	out, err := s.load(ctx, host)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn("3scale configuration: failed to load a host, what was loaded before stays in force", "host", host, "err", err)
		}
		return err
	}
	return s.serve(ctx, out)
}
