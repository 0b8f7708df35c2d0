package quota

import (
	"errors"
	"sync"
	"time"

	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/redisclient"
)

var errReply = errors.New("redis: unexpected reply of a script")

// A syncer counts in this process and tells Redis now and then. Between two
// exchanges it admits what was left at the first; so may every other gateway,
// which is by how much they can exceed the limit together. While Redis does not
// answer, this process counts for itself.
type syncer struct {
	remote   *remote
	local    store // which never fails
	interval time.Duration
	env      plugin.Env

	mu     sync.Mutex
	shares map[string]*share

	wake   chan struct{} // there are shares
	stop   chan struct{}
	worker sync.WaitGroup
}

// A share is what this process knows of one key's quota.
type share struct {
	mu        sync.Mutex
	known     bool      // left and end are
	left      int64     // what Redis said was left
	end       time.Time // when the window is over
	delta     int64     // admitted since then
	limit     int64
	window    time.Duration
	abandoned bool // no longer among the shares
}

func newSyncer(env plugin.Env, r *remote, l store, interval time.Duration) *syncer {
	s := &syncer{
		remote: r, local: l, interval: interval, env: env,
		shares: map[string]*share{}, wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.worker.Go(s.run)
	return s
}

// Close tells Redis the rest and ends.
func (s *syncer) Close() {
	close(s.stop)
	s.worker.Wait()
}

func (s *syncer) take(key []byte, cost, most int64, window time.Duration) (limit.Count, error) {
	if window <= s.interval {
		return s.remote.take(key, cost, most, window)
	}
	h := s.hold(key)
	if h == nil {
		return s.remote.take(key, cost, most, window)
	}
	defer h.mu.Unlock()
	now := s.env.Now()
	h.limit, h.window = most, window
	if !h.known || !now.Before(h.end) {
		s.ask(key, h, now)
	}
	left := h.left - h.delta - cost
	if left >= 0 {
		h.delta += cost
	}
	return limit.Count{OK: left >= 0, Remaining: max(left, 0), Reset: h.end.Sub(now)}, nil
}

// hold locks the share of a key, making it if need be; nil: there are too many.
func (s *syncer) hold(key []byte) *share {
	for {
		s.mu.Lock()
		h := s.shares[string(key)]
		if h == nil {
			if len(s.shares) >= limit.MaxKeys {
				s.mu.Unlock()
				return nil
			}
			h = new(share)
			s.shares[string(key)] = h
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
		s.mu.Unlock()
		h.mu.Lock()
		if !h.abandoned {
			return h
		}
		h.mu.Unlock()
	}
}

// ask tells Redis about one key and waits for what is left.
func (s *syncer) ask(key []byte, h *share, now time.Time) {
	values, err := s.remote.client.Run(s.remote.call(key, h.delta, h.limit, h.window, 1))
	got, err := s.remote.count(redisclient.Result{Values: values, Err: err}, h.limit, h.window)
	if err != nil {
		s.env.Log.Error("failed to count in redis, this process counts for itself", "owner", s.env.Owner, "err", err)
		got, _ = s.local.take(key, h.delta, h.limit, h.window)
	}
	h.settle(got, h.delta, now)
}

// settle notes what is left after told was counted.
func (h *share) settle(got limit.Count, told int64, now time.Time) {
	h.known, h.left, h.end = true, got.Remaining, now.Add(got.Reset)
	h.delta -= told
}

// run exchanges with Redis once per interval while there are shares.
func (s *syncer) run() {
	for {
		select {
		case <-s.stop:
			s.exchange(true)
			return
		case <-s.wake:
		}
		for more := true; more; {
			select {
			case <-s.stop:
				s.exchange(true)
				return
			case <-time.After(s.interval):
				more = s.exchange(false)
			}
		}
	}
}

// exchange tells Redis what was admitted since the last time, many keys in one
// go, and forgets the keys whose window is over. It reports whether any is left.
func (s *syncer) exchange(last bool) bool {
	now := s.env.Now()
	s.mu.Lock()
	var calls []redisclient.Call
	var told []report
	for key, h := range s.shares {
		if !h.mu.TryLock() {
			continue // a request asks just now
		}
		switch {
		case h.delta > 0:
			calls = append(calls, s.remote.call([]byte(key), h.delta, h.limit, h.window, 1))
			told = append(told, report{key, h, h.delta, h.limit, h.window})
		case !h.known || !now.Before(h.end):
			h.abandoned = true
			delete(s.shares, key)
		}
		h.mu.Unlock()
	}
	more := len(s.shares) > 0
	s.mu.Unlock()
	const together = 512
	for len(calls) > 0 {
		n := min(together, len(calls))
		s.learn(told[:n], s.remote.client.RunAll(calls[:n]), now, last)
		calls, told = calls[n:], told[n:]
	}
	return more
}

// A report is what Redis is told about a key.
type report struct {
	key    string
	share  *share
	delta  int64
	limit  int64
	window time.Duration
}

func (s *syncer) learn(told []report, results []redisclient.Result, now time.Time, last bool) {
	for i, r := range told {
		got, err := s.remote.count(results[i], r.limit, r.window)
		if err != nil {
			if i == 0 {
				s.env.Log.Error("failed to count in redis, this process counts for itself", "owner", s.env.Owner, "err", err)
			}
			if last {
				continue
			}
			got, _ = s.local.take([]byte(r.key), r.delta, r.limit, r.window)
		}
		r.share.mu.Lock()
		r.share.settle(got, r.delta, now)
		r.share.mu.Unlock()
	}
}
