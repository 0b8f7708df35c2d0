// Package cow is a persistent map from string: a new version that differs in
// one entry costs a few kilobytes, whatever the size, and the old one stays as
// it was.
//
// It is a trie over the key's hash. A leaf holds up to leafSize entries. An
// inner node is a directory of 2 to 64 slots, indexed by the next bits of the
// hash, as in extendible hashing: a leaf that no bit separates yet stands in
// several slots, so that leaves split in two and stay more than half full at
// any size. Nothing is ever rebuilt: the dearest single change copies one path
// and splits one leaf.
package cow

import (
	"hash/maphash"
	"iter"
)

// A Map is an immutable map from string to V. The zero Map is empty. Copying
// one is copying two words; any number of goroutines may read it.
type Map[V any] struct {
	root *node[V]
	size int
}

// Get returns the value under key. It does not keep or copy key.
func (m *Map[V]) Get(key string) (v V, ok bool) {
	if m.root == nil {
		return v, false
	}
	return m.root.get(hash(key), key)
}

// Len is the number of entries.
func (m *Map[V]) Len() int { return m.size }

// All yields every entry, in no particular order.
func (m *Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.root != nil {
			m.root.each(yield)
		}
	}
}

// Edit starts a change; m stays as it is.
func (m *Map[V]) Edit() *Edit[V] { return &Edit[V]{m: *m} }

// An Edit is a changed copy of a Map in the making; it shares with the Map all
// that it has not touched. It belongs to one goroutine. The zero Edit is of the
// empty Map.
type Edit[V any] struct {
	_     noCopy
	m     Map[V]
	owner *owner // nil: nothing is changed yet
	sets  int    // since the last Map
}

// noCopy has vet tell of an Edit that is copied.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Begin starts a change of m with the memory of e, whose own is over.
func (e *Edit[V]) Begin(m Map[V]) { *e = Edit[V]{m: m} }

// own marks what is made from now on.
func (e *Edit[V]) own() *owner {
	if e.owner == nil {
		e.owner = &owner{hash}
	}
	return e.owner
}

// Get returns the value under key as changed so far.
func (e *Edit[V]) Get(key string) (v V, ok bool) {
	if e.m.root == nil {
		return v, false
	}
	if e.owner == nil {
		return e.m.root.get(hash(key), key)
	}
	return e.m.root.get(e.owner.hash(key), key)
}

// Len is the number of entries as changed so far.
func (e *Edit[V]) Len() int { return e.m.size }

// Set puts v under key and reports whether there was a value before.
func (e *Edit[V]) Set(key string, v V) bool {
	o := e.own()
	if e.m.root == nil {
		e.m.root = &node[V]{owner: o}
	}
	e.sets++
	root, found := e.m.root.set(o, o.hash(key), 0, item[V]{key, v})
	e.m.root = root
	if !found {
		e.m.size++
	}
	return found
}

// Del removes key and reports whether it was there.
func (e *Edit[V]) Del(key string) bool {
	if _, found := e.Get(key); !found {
		return false
	}
	o := e.own()
	e.m.root = e.m.root.del(o, o.hash(key), 0, key)
	if e.m.size--; e.m.size == 0 {
		e.m.root = nil
	}
	return true
}

// Map ends the change and returns its result. A later change through e starts
// from that result and leaves it alone.
func (e *Edit[V]) Map() Map[V] {
	if e.owner == nil {
		return e.m
	}
	if e.sets >= many && e.m.root != nil {
		e.m.root.fit(e.owner)
	}
	e.owner, e.sets = &owner{e.owner.hash}, 0
	return e.m
}

var seed = maphash.MakeSeed()

func hash(key string) uint64 { return maphash.String(seed, key) }
