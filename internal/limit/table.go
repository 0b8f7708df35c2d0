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

// A shard is a hash table with open addressing, so that an entry is found where
// its hash says and one of a million costs a request one cold line of memory.
type shard[V any] struct {
	mu      sync.Mutex
	entries []entry[V] // a power of two, at most three quarters in use
	used    int
	hand    int      // where the next entry to forget is looked for
	fresh   V        // being made, so that it need not be allocated
	_       [24]byte // shards are written by different cores
}

// An entry is a cache line where V is of two words.
type entry[V any] struct {
	hash  uint64 // 0: free
	end   int64  // when the value is of no more consequence, in nanoseconds since the epoch
	key   text
	value V
}

// A text is a short one in place, or a long one elsewhere.
type text struct {
	long  *string // nil: it is short
	n     uint8
	short [23]byte
}

func textOf(key []byte) (t text) {
	if len(key) > len(t.short) {
		long := string(key)
		t.long = &long
		return t
	}
	t.n = uint8(copy(t.short[:], key))
	return t
}

func (t *text) is(key []byte) bool {
	if t.long != nil {
		return *t.long == string(key)
	}
	return string(t.short[:t.n]) == string(key)
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
	h := maphash.Bytes(t.seed, key) | taken
	s := &t.shards[h%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, there := s.find(h, key)
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
		s.add(entry[V]{h, end, textOf(key), s.fresh}, now, t.most)
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
		n += s.used
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
		s.entries, s.used, s.hand = nil, 0, 0
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
			// What comes after a removed entry may move into its place.
			for s.entries[i].hash != 0 && s.entries[i].end <= now {
				s.remove(i)
			}
		}
		done := to >= len(s.entries)
		if done {
			s.shrink()
		}
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// taken is set in the hash of every entry, whose lowest bits choose the shard.
const taken = 1 << 63

// home is where an entry is looked for first.
func (s *shard[V]) home(h uint64) int { return int(h / shardCount & uint64(len(s.entries)-1)) }

func (s *shard[V]) next(i int) int { return (i + 1) & (len(s.entries) - 1) }

func (s *shard[V]) find(h uint64, key []byte) (i int, there bool) {
	if s.used == 0 {
		return 0, false
	}
	for i = s.home(h); s.entries[i].hash != 0; i = s.next(i) {
		if s.entries[i].hash == h && s.entries[i].key.is(key) {
			return i, true
		}
	}
	return i, false
}

func (s *shard[V]) add(e entry[V], now int64, most int) {
	if s.used >= most {
		s.forget(now)
	}
	if (s.used+1)*4 > len(s.entries)*3 {
		s.resize(max(2*len(s.entries), 8))
	}
	s.put(e)
	s.used++
}

func (s *shard[V]) put(e entry[V]) {
	i := s.home(e.hash)
	for s.entries[i].hash != 0 {
		i = s.next(i)
	}
	s.entries[i] = e
}

func (s *shard[V]) resize(size int) {
	old := s.entries
	s.entries = make([]entry[V], size)
	for i := range old {
		if old[i].hash != 0 {
			s.put(old[i])
		}
	}
}

// forget removes, of some entries, the one whose time is over first; none whose
// time never is.
func (s *shard[V]) forget(now int64) {
	best, end := -1, always
	for seen := 0; seen < min(sampled, s.used) && end > now; {
		s.hand = s.next(s.hand)
		if e := &s.entries[s.hand]; e.hash != 0 {
			if seen++; e.end < end {
				best, end = s.hand, e.end
			}
		}
	}
	if best >= 0 {
		s.remove(best)
	}
}

// remove closes the gap that entry i leaves: what was pushed behind it by others
// moves up, lest it be looked for in vain.
func (s *shard[V]) remove(i int) {
	s.used--
	for gap, at := i, s.next(i); ; at = s.next(at) {
		e := &s.entries[at]
		if e.hash == 0 {
			s.entries[gap] = entry[V]{}
			return
		}
		mask := len(s.entries) - 1
		if (at-s.home(e.hash))&mask >= (at-gap)&mask {
			s.entries[gap], gap = *e, at
		}
	}
}

// shrink gives memory back after a rush.
func (s *shard[V]) shrink() {
	const small = 256
	size := len(s.entries)
	for size > small && s.used <= size/8 {
		size /= 2
	}
	if size < len(s.entries) {
		s.resize(size)
	}
}
