package ratelimit

import (
	"time"

	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// A local store counts in this process. Its counters outlive every configuration.
type local struct{ *limit.Table[state] }

// A state is what is known of a key.
type state struct {
	n      int64         // connections under way, requests in the window
	excess float64       // requests ahead of the rate
	last   time.Duration // when that was
	wet    bool          // excess and last mean something
}

func openLocal(env plugin.Env) local {
	return local{plugin.Lasting(env, name, func() *limit.Table[state] { return limit.NewTable[state](env.Now) })}
}

func (s local) enter(v *visit) (wait time.Duration, ok bool, err error) {
	for i, m := range v.limiters {
		w, ok := s.count(m, v.key(i))
		if !ok {
			for i--; i >= 0; i-- {
				s.uncount(v.limiters[i], v.key(i))
			}
			return 0, false, nil
		}
		wait = max(wait, w)
	}
	return wait, true, nil
}

func (s local) leave(key []byte) error {
	s.Do(key, func(v *state, _ time.Duration) time.Duration {
		v.n = max(v.n-1, 0)
		return kept(v.n)
	})
	return nil
}

func (s local) count(m *limiter, key []byte) (wait time.Duration, ok bool) {
	s.Do(key, func(v *state, now time.Duration) time.Duration {
		if m.kind == bucket {
			wait, ok = m.fill(v, now)
			return m.dry(v, now)
		}
		if ok = v.n < m.most; ok {
			v.n++
		}
		if m.kind == window {
			return schema.Seconds(m.window)
		}
		wait = m.wait(v.n)
		return kept(v.n)
	})
	return wait, ok
}

// wait is the delay of the n-th connection.
func (m *limiter) wait(n int64) time.Duration {
	if n <= m.conn {
		return 0
	}
	return schema.Seconds(m.delay.Seconds() * float64((n-1)/m.conn))
}

// fill adds a request to a bucket (the formula of nginx's limit_req).
func (m *limiter) fill(v *state, now time.Duration) (wait time.Duration, ok bool) {
	excess := 0.0
	if v.wet {
		excess = max(v.excess-m.rate*(now-v.last).Seconds()+1, 0)
	}
	if excess > m.burst {
		return 0, false
	}
	v.excess, v.last, v.wet = excess, now, true
	return schema.Seconds(excess / m.rate), true
}

// dry is when the bucket is of no consequence any more.
func (m *limiter) dry(v *state, now time.Duration) time.Duration {
	return schema.Seconds((v.excess+1)/m.rate) - (now - v.last)
}

// uncount takes back what count has done.
func (s local) uncount(m *limiter, key []byte) {
	s.Do(key, func(v *state, now time.Duration) time.Duration {
		switch m.kind {
		case bucket:
			v.excess--
			return m.dry(v, now)
		case window:
			v.n--
			return schema.Seconds(m.window)
		}
		v.n = max(v.n-1, 0)
		return kept(v.n)
	})
}

// kept is how long a count of connections matters. One that is back at 0 stays
// for a while: its key will come again.
func kept(n int64) time.Duration {
	if n > 0 {
		return limit.Forever
	}
	return 10 * time.Second
}
