package etcd

import (
	"hash/maphash"
	"iter"
)

// known are paths with their marks. There may be a million: nothing in it is a pointer
// that the garbage collector would follow, and the paths lie one after the other.
type known struct {
	entries map[fingerprint]placed
	paths   []byte // those that have left as well
	gone    int    // bytes of these
}

// newKnown has room for n paths.
func newKnown(n int) known { return known{entries: make(map[fingerprint]placed, n)} }

// A fingerprint stands for a path. No two that anybody can choose have the same.
type fingerprint [2]uint64

type placed struct {
	mark  mark
	place uint64 // of the path: where it begins, then its length
}

// lengthBits are those of a length: a key of etcd is smaller than a request, and that
// is of 16 MiB at most.
const lengthBits = 24

// Never changed; the second seed makes a collision by chance impossible in practice.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(path string) fingerprint {
	return fingerprint{maphash.String(seeds[0], path), maphash.String(seeds[1], path)}
}

func (k *known) get(path string) (m mark, ok bool) {
	e, ok := k.entries[fingerprintOf(path)]
	return e.mark, ok
}

func (k *known) set(path string, m mark) {
	f := fingerprintOf(path)
	e, had := k.entries[f]
	e.mark = m
	if !had {
		e.place = k.keep([]byte(path))
	}
	k.entries[f] = e
}

func (k *known) keep(path []byte) (place uint64) {
	place = uint64(len(k.paths))<<lengthBits | uint64(len(path))
	k.paths = append(k.paths, path...)
	return place
}

func (k *known) at(place uint64) []byte {
	from := place >> lengthBits
	return k.paths[from : from+place&(1<<lengthBits-1)]
}

func (k *known) del(path string) {
	f := fingerprintOf(path)
	if _, had := k.entries[f]; !had {
		return
	}
	delete(k.entries, f)
	if k.gone += len(path); k.gone > len(k.paths)/2 {
		k.compact()
	}
}

// compact leaves out the paths that have left.
func (k *known) compact() {
	old := *k
	k.paths, k.gone = make([]byte, 0, len(old.paths)-old.gone), 0
	for f, e := range k.entries {
		e.place = k.keep(old.at(e.place))
		k.entries[f] = e
	}
}

func (k *known) len() int { return len(k.entries) }

// all yields the paths, in no particular order.
func (k *known) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range k.entries {
			if !yield(string(k.at(e.place))) {
				return
			}
		}
	}
}
