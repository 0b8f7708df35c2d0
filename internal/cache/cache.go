// Package cache remembers values under keys within a bound of memory. Reading
// neither locks nor allocates, however many goroutines do it.
package cache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
)

// shards is how many parts of a cache can change at the same time.
const shards = 64

// overhead is what an entry takes beside its key and its value, in bytes.
const overhead = 160

// A Cache is a map whose entries may end: at a time, or when there is no room,
// those first that nobody has asked for lately. Make it with New.
type Cache[V any] struct {
	seed   maphash.Seed
	now    func() time.Time
	room   int64 // of a shard
	shards [shards]shard[V]
}

type shard[V any] struct {
	heads atomic.Pointer[[]atomic.Pointer[node[V]]]

	mu    sync.Mutex // held while anything below or a chain changes
	count int
	bytes int64
	hand  *item[V] // of the clock; nil: there are no items

	_ [64]byte // the neighbour's changes are not this shard's
}

// A node is an item's place in a chain.
type node[V any] struct {
	hash uint64
	item atomic.Pointer[item[V]]
	next atomic.Pointer[node[V]]
}

// An item is an entry. All but used and the ring is immutable.
type item[V any] struct {
	key     string
	value   V
	expires int64 // 0: never
	bytes   int64
	hash    uint64
	used    atomic.Bool // since the clock's hand was here

	older, newer *item[V] // the ring
}

// New makes a cache that takes about room bytes at most. now is the clock.
func New[V any](room int64, now func() time.Time) *Cache[V] {
	c := &Cache[V]{seed: maphash.MakeSeed(), now: now, room: room / shards}
	for i := range c.shards {
		heads := make([]atomic.Pointer[node[V]], 4)
		c.shards[i].heads.Store(&heads)
	}
	return c
}

// Get returns the value of a key.
func (c *Cache[V]) Get(key []byte) (value V, ok bool) {
	h := maphash.Bytes(c.seed, key)
	n := c.shards[h%shards].find(h, key)
	if n == nil {
		return value, false
	}
	e := n.item.Load()
	if c.ended(e) {
		return value, false
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.value, true
}

func (c *Cache[V]) ended(e *item[V]) bool {
	return e.expires != 0 && monotonic.Of(c.now()) >= e.expires
}

// Put makes value that of a copy of key, for as long as lasts says; 0: until
// there is no room. size is what the value takes beside V itself, in bytes.
func (c *Cache[V]) Put(key []byte, value V, size int, lasts time.Duration) {
	c.put(key, value, size, lasts, true)
}

// Add is Put for a key that has no value. It returns the value that the key has
// then, and whether that is the new one.
func (c *Cache[V]) Add(key []byte, value V, size int, lasts time.Duration) (V, bool) {
	return c.put(key, value, size, lasts, false)
}

func (c *Cache[V]) put(key []byte, value V, size int, lasts time.Duration, replace bool) (V, bool) {
	h := maphash.Bytes(c.seed, key)
	e := &item[V]{key: string(key), value: value, hash: h, bytes: int64(len(key) + size + overhead)}
	if lasts > 0 {
		e.expires = monotonic.Of(c.now().Add(lasts))
	}
	s := &c.shards[h%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(h, key); n != nil {
		old := n.item.Load()
		if !replace && !c.ended(old) {
			return old.value, false
		}
		s.leave(old)
		s.join(e)
		n.item.Store(e)
	} else {
		s.grow()
		n := &node[V]{hash: h}
		n.item.Store(e)
		s.link(*s.heads.Load(), n)
		s.join(e)
	}
	s.shrink(c)
	return value, true
}

// Delete removes a key.
func (c *Cache[V]) Delete(key []byte) {
	h := maphash.Bytes(c.seed, key)
	s := &c.shards[h%shards]
	if s.find(h, key) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(h, key); n != nil {
		s.remove(n.item.Load())
	}
}

// Len is the number of entries, with those that have ended and were not removed
// yet.
func (c *Cache[V]) Len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// Bytes is what the entries take.
func (c *Cache[V]) Bytes() (n int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.bytes
		s.mu.Unlock()
	}
	return n
}

func (s *shard[V]) find(h uint64, key []byte) *node[V] {
	heads := *s.heads.Load()
	for n := heads[h/shards%uint64(len(heads))].Load(); n != nil; n = n.next.Load() {
		if n.hash == h && n.item.Load().key == string(key) {
			return n
		}
	}
	return nil
}

func (s *shard[V]) link(heads []atomic.Pointer[node[V]], n *node[V]) {
	head := &heads[n.hash/shards%uint64(len(heads))]
	n.next.Store(head.Load())
	head.Store(n)
}

// grow doubles the chains when there are as many entries. Readers go on with the
// old ones.
func (s *shard[V]) grow() {
	old := *s.heads.Load()
	if s.count < len(old) {
		return
	}
	heads := make([]atomic.Pointer[node[V]], 2*len(old))
	for i := range old {
		for n := old[i].Load(); n != nil; n = n.next.Load() {
			fresh := &node[V]{hash: n.hash}
			fresh.item.Store(n.item.Load())
			s.link(heads, fresh)
		}
	}
	s.heads.Store(&heads)
}

// join puts e into the ring, where the hand comes last.
func (s *shard[V]) join(e *item[V]) {
	s.count++
	s.bytes += e.bytes
	if s.hand == nil {
		e.older, e.newer = e, e
		s.hand = e
		return
	}
	e.newer, e.older = s.hand, s.hand.older
	e.older.newer, e.newer.older = e, e
}

// leave takes e out of the ring.
func (s *shard[V]) leave(e *item[V]) {
	s.count--
	s.bytes -= e.bytes
	if e.newer == e {
		s.hand = nil
		return
	}
	e.older.newer, e.newer.older = e.newer, e.older
	if s.hand == e {
		s.hand = e.newer
	}
}

// remove takes e out of its chain and the ring.
func (s *shard[V]) remove(e *item[V]) {
	heads := *s.heads.Load()
	for at := &heads[e.hash/shards%uint64(len(heads))]; ; {
		n := at.Load()
		if n.item.Load() == e {
			at.Store(n.next.Load())
			break
		}
		at = &n.next
	}
	s.leave(e)
}

// shrink makes room.
func (s *shard[V]) shrink(c *Cache[V]) {
	for s.bytes > c.room && s.hand != nil {
		e := s.hand
		if !c.ended(e) && e.used.Swap(false) {
			s.hand = e.newer
			continue
		}
		s.remove(e)
	}
}
