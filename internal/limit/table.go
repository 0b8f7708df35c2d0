// Package limit counts, per key and exactly however many ask at once: requests
// in fixed and in sliding windows, the content of leaky buckets, what is under
// way. What is of no more consequence is forgotten, so that memory is bounded
// by the keys seen within a window and, whatever clients send, by MaxKeys.
package limit

import (
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// MaxKeys is how many keys one set of counters holds, about 150 bytes each.
// Above it, keys whose time is nearly over are forgotten early.
const MaxKeys = 1 << 20

const (
	shardCount = 64
	sweepPause = 10 * time.Second
	sampled    = 8 // entries looked at to find one to forget
	always     = int64(math.MaxInt64)
)

// A Table holds a value of type V per key until its time is over. The zero
// Table is not useful.
type Table[V any] struct {
	clock  func() time.Time
	epoch  time.Time
	seed   maphash.Seed
	most   int // entries of a shard
	shards [shardCount]shard[V]

	mu     sync.Mutex
	timer  *time.Timer // runs while there are entries
	armed  bool
	closed bool
}

type shard[V any] struct {
	mu      sync.Mutex
	index   map[string]int
	entries []entry[V]
	hand    int      // where the next entry to forget is looked for
	fresh   V        // being made, so that it need not be allocated
	_       [24]byte // shards are written by different cores
}

type entry[V any] struct {
	key   string
	end   int64 // when the value is of no more consequence, in nanoseconds since the epoch
	value V
}

// NewTable makes an empty table that reads time from clock. Close ends it.
func NewTable[V any](clock func() time.Time) *Table[V] {
	return &Table[V]{clock: clock, epoch: clock(), seed: maphash.MakeSeed(), most: MaxKeys / shardCount}
}

// Do calls f, while nobody else does for the same key, with the key's value, the
// zero V if there is none, and the time since the table was made. What f leaves
// in v stays for the duration that it returns: at most 0 forgets it, a negative
// one included; Forever never does.
func (t *Table[V]) Do(key []byte, f func(v *V, now time.Duration) (keep time.Duration)) {
	now := t.now()
	s := &t.shards[maphash.Bytes(t.seed, key)%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, there := s.index[string(key)]
	if there && s.entries[i].end > now {
		e := &s.entries[i]
		if e.end = endOf(now, f(&e.value, time.Duration(now))); e.end <= now {
			s.remove(i)
		}
		return
	}
	var none V
	s.fresh = none
	end := endOf(now, f(&s.fresh, time.Duration(now)))
	switch {
	case end <= now && there:
		s.remove(i)
	case end <= now:
	case there:
		s.entries[i].value, s.entries[i].end = s.fresh, end
	default:
		s.add(entry[V]{string(key), end, s.fresh}, now, t.most)
		t.arm()
	}
}

// Forever keeps a value until its keeper decides otherwise.
const Forever = time.Duration(math.MaxInt64)

func endOf(now int64, keep time.Duration) int64 {
	if end := now + int64(keep); keep <= 0 || end > now {
		return end
	}
	return always
}

func (t *Table[V]) now() int64 { return int64(t.clock().Sub(t.epoch)) }

// Len is the number of keys in memory.
func (t *Table[V]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

// Close forgets everything. Those who still count do so in vain.
func (t *Table[V]) Close() {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.index, s.entries = nil, nil
		s.mu.Unlock()
	}
}

// arm makes sure that what is in the table will be swept.
func (t *Table[V]) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed || t.closed {
		return
	}
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(sweepPause, t.sweep)
	} else {
		t.timer.Reset(sweepPause)
	}
}

// sweep removes what is over and comes again while something is left.
func (t *Table[V]) sweep() {
	now := t.now()
	for i := range t.shards {
		t.shards[i].sweep(now)
	}
	t.mu.Lock()
	t.armed = false
	t.mu.Unlock()
	if t.Len() > 0 {
		t.arm()
	}
}

func (s *shard[V]) sweep(now int64) {
	const atOnce = 1024 // entries for which requests may have to wait
	for from := 0; ; from += atOnce {
		s.mu.Lock()
		to := min(from+atOnce, len(s.entries))
		for i := to - 1; i >= from; i-- {
			if s.entries[i].end <= now {
				s.remove(i)
			}
		}
		s.shrink()
		done := to >= len(s.entries)
		s.mu.Unlock()
		if done {
			return
		}
	}
}

func (s *shard[V]) add(e entry[V], now int64, most int) {
	if len(s.entries) >= most {
		s.forget(now)
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[e.key] = len(s.entries)
	s.entries = append(s.entries, e)
}

// forget removes, of some entries, the one whose time is over first; none whose
// time never is.
func (s *shard[V]) forget(now int64) {
	best, end := -1, always
	for range min(sampled, len(s.entries)) {
		s.hand++
		if s.hand >= len(s.entries) {
			s.hand = 0
		}
		if e := &s.entries[s.hand]; e.end < end {
			best, end = s.hand, e.end
		}
		if end <= now {
			break
		}
	}
	if best >= 0 {
		s.remove(best)
	}
}

func (s *shard[V]) remove(i int) {
	last := len(s.entries) - 1
	delete(s.index, s.entries[i].key)
	if i != last {
		s.entries[i] = s.entries[last]
		s.index[s.entries[i].key] = i
	}
	s.entries[last] = entry[V]{}
	s.entries = s.entries[:last]
}

// shrink gives memory back after a rush.
func (s *shard[V]) shrink() {
	const small = 256
	if cap(s.entries) <= small || len(s.entries) > cap(s.entries)/8 {
		return
	}
	entries := make([]entry[V], len(s.entries), 2*len(s.entries)+1)
	copy(entries, s.entries)
	s.entries = entries
	s.index = make(map[string]int, len(entries))
	for i := range entries {
		s.index[entries[i].key] = i
	}
}
