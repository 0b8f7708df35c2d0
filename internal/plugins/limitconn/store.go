package limitconn

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/redisclient"
	"weir/internal/schema"
)

// A slot is what a request occupies under one rule.
type slot struct {
	key    []byte
	wait   time.Duration
	member string // of the set in Redis
}

// slots are those of one request.
type slots struct {
	list []slot
	n    int // occupied
}

var pool = sync.Pool{New: func() any { return new(slots) }}

func newSlots() *slots {
	s := pool.Get().(*slots)
	s.n = 0
	return s
}

// next is a slot that is not occupied yet.
func (s *slots) next() *slot {
	if s.n == len(s.list) {
		s.list = append(s.list, slot{})
	}
	held := &s.list[s.n]
	held.wait, held.member = 0, ""
	return held
}

func (s *slots) free() { pool.Put(s) }

// A delay is how long a request is thought to take.
type delay struct {
	bits  atomic.Uint64 // of a float64, in seconds
	fixed bool
}

func newDelay(seconds float64, fixed bool) *delay {
	d := &delay{fixed: fixed}
	d.bits.Store(math.Float64bits(seconds))
	return d
}

// times is n times the delay.
func (d *delay) times(n int64) time.Duration {
	return schema.Seconds(math.Float64frombits(d.bits.Load()) * float64(n))
}

// learn takes the mean of the delay and what a request took.
func (d *delay) learn(took time.Duration) {
	if d.fixed {
		return
	}
	for {
		old := d.bits.Load()
		mean := (math.Float64frombits(old) + max(took, 0).Seconds()) / 2
		if d.bits.CompareAndSwap(old, math.Float64bits(mean)) {
			return
		}
	}
}

// A store counts what is under way.
type store interface {
	enter(s *slot, most int64) (n int64, ok bool, err error)
	leave(s *slot) // must not block
}

func openStore(c *Config, env plugin.Env) store {
	if c.Policy == "local" {
		return local{plugin.Lasting(env, name, func() limit.Concurrency { return limit.NewConcurrency(env.Now) })}
	}
	return &remote{
		client: redisclient.Open(env, c.Policy, &c.Config, nil), ttl: c.KeyTTL,
		lost: func() { env.Log.Error("too many requests end at once; redis forgets some late", "owner", env.Owner) },
	}
}

type local struct{ limit.Concurrency }

func (l local) enter(s *slot, most int64) (int64, bool, error) {
	n, ok := l.Enter(s.key, most)
	return n, ok, nil
}

func (l local) leave(s *slot) { l.Leave(s.key) }

// remote counts in Redis: the members of a sorted set are requests, each with
// the time at which it is taken for gone, in case its gateway died.
type remote struct {
	client *redisclient.Client
	ttl    int // seconds
	lost   func()
}

// Arguments: most, ttl in seconds, member. The clock is that of Redis.
var enterScript = redisclient.NewScript(`
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
local n = redis.call('ZCARD', KEYS[1])
if n >= tonumber(ARGV[1]) then
  return {0, n}
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return {1, n + 1}`)

var leaveScript = redisclient.NewScript(`return {redis.call('ZREM', KEYS[1], ARGV[1])}`)

func (r *remote) enter(s *slot, most int64) (int64, bool, error) {
	s.member = newMember()
	got, err := r.client.Run(redisclient.Call{
		Script: enterScript, Key: keyOf(s), Args: []any{most, r.ttl, s.member},
	})
	if err != nil || len(got) != 2 {
		// It may be counted all the same.
		r.leave(s)
		return 0, false, err
	}
	return got[1], got[0] == 1, nil
}

func (r *remote) leave(s *slot) {
	if !r.client.Later(redisclient.Job{Script: leaveScript, Key: keyOf(s), Args: []any{s.member}}) {
		r.lost()
	}
}

func keyOf(s *slot) string { return "limit_conn:" + string(s.key) }

// newMember names a request among all of all gateways.
func newMember() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(b[:])
}
