package threescale

import (
	"sync"
	"time"

	"weir/internal/plugin"
)

// verdictsRoom is the memory of what 3scale_batcher remembers of authorizations,
// in bytes (APIcast: shared memory cached_auths).
const verdictsRoom = 20 << 20

// A verdict is what the backend has said of an authorization.
type verdict struct {
	status   int16
	exceeded bool // limits were the reason to refuse
}

// Delegate is Allow for requests whose use is gathered in a batch: verdicts hold
// for so long, and are not counted by the backend (policy 3scale_batcher). asked
// says that the backend was.
func (k *Client) Delegate(c *plugin.Ctx, r *Request, b *Batch, ttl time.Duration) (reply *plugin.Reply, asked bool) {
	var stack [512]byte
	key := r.appendKey(stack[:0], 'b')
	r.asked.key = c.Keep(key)
	v, known := k.rt.delegated.Get(key)
	if !known {
		v = k.rt.flights.once(key, func() verdict { return k.judge(r, key, ttl) })
	}
	switch {
	case v.status == 200:
		b.Add(&r.Credentials, r.Usage)
		return nil, !known
	case v.exceeded:
		return r.Product.LimitsExceeded, !known
	}
	return r.Product.Failed, !known
}

// judge asks the backend. What it does not know itself at the moment, a caching
// policy decides, and is asked again.
func (k *Client) judge(r *Request, key []byte, ttl time.Duration) verdict {
	a := k.Authorize(r)
	r.note(key, &a)
	if r.Caching != CachingDefault {
		k.rt.remember(r.Caching, key, a.Status)
	}
	v := verdict{status: int16(a.Status), exceeded: a.Reason == LimitsExceeded}
	switch {
	case a.Status == 200, 400 <= a.Status && a.Status < 500:
		k.rt.delegated.Put(key, v, 0, ttl)
	case r.Caching != CachingDefault && k.rt.allowed(key):
		return verdict{status: 200}
	default:
		return verdict{}
	}
	return v
}

// flights are the questions that are under way to backends.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

type flight struct {
	landed chan struct{}
	v      verdict // when it has
}

// once has ask asked by one of those who come with a key at the same time; the
// others wait for its answer.
func (s *flights) once(key []byte, ask func() verdict) verdict {
	s.mu.Lock()
	if f := s.byKey[string(key)]; f != nil {
		s.mu.Unlock()
		<-f.landed
		return f.v
	}
	f := &flight{landed: make(chan struct{})}
	if s.byKey == nil {
		s.byKey = map[string]*flight{}
	}
	s.byKey[string(key)] = f
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.byKey, string(key))
		s.mu.Unlock()
		close(f.landed)
	}()
	f.v = ask()
	return f.v
}
