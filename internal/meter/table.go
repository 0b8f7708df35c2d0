package meter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// shards bound how long an insertion that makes the table grow keeps others
// waiting: one shard is copied at a time.
const shards = 64

// A Table is a map that many goroutines read at any time without a lock and
// without allocating. Make it with NewTable.
type Table[K comparable, V any] struct {
	seed   maphash.Seed
	shards [shards]shard[K, V]
}

type shard[K comparable, V any] struct {
	heads atomic.Pointer[[]atomic.Pointer[entry[K, V]]]
	mu    sync.Mutex
	n     int
}

// An entry is immutable but for next, which the shard's mu guards for writing.
type entry[K comparable, V any] struct {
	hash  uint64
	next  atomic.Pointer[entry[K, V]]
	value V
	key   K
}

// NewTable makes an empty table.
func NewTable[K comparable, V any]() *Table[K, V] {
	t := &Table[K, V]{seed: maphash.MakeSeed()}
	for i := range t.shards {
		heads := make([]atomic.Pointer[entry[K, V]], 8)
		t.shards[i].heads.Store(&heads)
	}
	return t
}

// Get returns the value of a key.
func (t *Table[K, V]) Get(key K) (value V, ok bool) {
	h := maphash.Comparable(t.seed, key)
	if e := t.shards[h%shards].find(h, key); e != nil {
		return e.value, true
	}
	return value, false
}

func (s *shard[K, V]) find(h uint64, key K) *entry[K, V] {
	heads := *s.heads.Load()
	for e := heads[h/shards%uint64(len(heads))].Load(); e != nil; e = e.next.Load() {
		if e.hash == h && e.key == key {
			return e
		}
	}
	return nil
}

// Put sets the value of a key that the table does not have; of several calls for
// one key the first counts. It returns the value that counts.
func (t *Table[K, V]) Put(key K, value V) V {
	h := maphash.Comparable(t.seed, key)
	s := &t.shards[h%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(h, key); e != nil {
		return e.value
	}
	s.grow()
	s.insert(*s.heads.Load(), &entry[K, V]{hash: h, key: key, value: value})
	s.n++
	return value
}

func (s *shard[K, V]) insert(heads []atomic.Pointer[entry[K, V]], e *entry[K, V]) {
	head := &heads[e.hash/shards%uint64(len(heads))]
	e.next.Store(head.Load())
	head.Store(e)
}

// grow doubles the shard when there are as many entries as chains. Readers go on
// with the old chains, so the entries are copied.
func (s *shard[K, V]) grow() {
	old := *s.heads.Load()
	if s.n < len(old) {
		return
	}
	heads := make([]atomic.Pointer[entry[K, V]], 2*len(old))
	for i := range old {
		for e := old[i].Load(); e != nil; e = e.next.Load() {
			s.insert(heads, &entry[K, V]{hash: e.hash, key: e.key, value: e.value})
		}
	}
	s.heads.Store(&heads)
}

// Delete removes the entries for which drop returns true. drop is called with
// the shard locked and must be quick.
func (t *Table[K, V]) Delete(drop func(K, V) bool) {
	for i := range t.shards {
		t.shards[i].remove(drop)
	}
}

func (s *shard[K, V]) remove(drop func(K, V) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heads := *s.heads.Load()
	for i := range heads {
		at := &heads[i]
		for e := at.Load(); e != nil; e = e.next.Load() {
			if drop(e.key, e.value) {
				at.Store(e.next.Load())
				s.n--
				continue
			}
			at = &e.next
		}
	}
}

// Len is the number of entries.
func (t *Table[K, V]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}
