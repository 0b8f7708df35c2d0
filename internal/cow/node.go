package cow

import (
	"math/bits"
	"slices"
)

const (
	leafSize = 16   // entries of a leaf before it splits
	slotBits = 6    // bits of the hash that one level of directories uses
	maxShift = 54   // the last level; behind it no bits are left to split by
	growth   = 4    // steps in which a leaf gets room while it is built
	many     = 1000 // that many entries set at once are worth fitting
)

// An owner marks the nodes that one Edit has made and may therefore change.
type owner struct{ hash func(string) uint64 }

type item[V any] struct {
	key   string
	value V
}

// A node is a leaf (slots is nil) or a directory. It fills a cache line: a lookup in
// a large map finds none of it in a cache.
type node[V any] struct {
	slots *[1 << slotBits]*node[V] // only among all of them is there room for directories
	mask  uint8                    // of a directory: one less than the slots it has, 1<<k
	depth uint8                    // of a leaf: how many bits of its directory's index all its keys share
	owner *owner
	tags  [leafSize / 8]uint64 // one byte of the hash of each item, to compare eight at once
	items []item[V]
}

// width is how many slots a directory has.
func (n *node[V]) width() uint64 { return uint64(n.mask) + 1 }

// slot is the place of a hash among them, of which shift bits are used up.
func (n *node[V]) slot(h uint64, shift uint) uint64 { return h >> shift & uint64(n.mask) }

// directory is one of the leaf alone.
func directory[V any](o *owner, leaf *node[V]) *node[V] {
	return &node[V]{owner: o, slots: &[1 << slotBits]*node[V]{leaf}}
}

// double gives a directory as many slots again.
func (n *node[V]) double() {
	w := n.width()
	copy(n.slots[w:2*w], n.slots[:w])
	n.mask = uint8(2*w - 1)
}

func tag(h uint64) uint8 { return uint8(h >> 56) }

func (n *node[V]) get(h uint64, key string) (v V, ok bool) {
	for rest := h; n.slots != nil; rest >>= slotBits {
		n = n.slots[rest&uint64(n.mask)&(1<<slotBits-1)]
	}
	if i := n.find(h, key); i >= 0 {
		return n.items[i].value, true
	}
	return v, false
}

// find returns the index of key in a leaf, or -1.
func (n *node[V]) find(h uint64, key string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for w, tags := range n.tags {
		x := tags ^ ones*uint64(tag(h))
		// A set top bit stands for a byte that is zero, or for one above such a
		// byte that is nearly so: the keys decide.
		for hits := (x - ones) &^ x & tops; hits != 0; hits &= hits - 1 {
			i := w*8 + bits.TrailingZeros64(hits)/8
			if i < len(n.items) && n.items[i].key == key {
				return i
			}
		}
	}
	for i := leafSize; i < len(n.items); i++ {
		if n.items[i].key == key {
			return i
		}
	}
	return -1
}

func (n *node[V]) each(yield func(string, V) bool) bool {
	for i := range n.items {
		if !yield(n.items[i].key, n.items[i].value) {
			return false
		}
	}
	if n.slots == nil {
		return true
	}
	for i, kid := range n.slots[:n.width()] {
		if kid.slots == nil && i>>kid.depth != 0 {
			continue // seen in an earlier slot
		}
		if !kid.each(yield) {
			return false
		}
	}
	return true
}

// own returns n, or a copy of it that o may change, with room for extra items.
func (n *node[V]) own(o *owner, extra int) *node[V] {
	if n.owner == o {
		return n
	}
	c := *n
	c.owner = o
	if n.slots != nil {
		slots := *n.slots
		c.slots = &slots
	}
	c.items = append(make([]item[V], 0, len(n.items)+extra), n.items...)
	return &c
}

// fit puts the entries of the leaves that o has made next to each other, without
// room for more: whoever changes a leaf from now on copies it. What they leave lay
// among what had to go while they grew, and would hold on to its memory.
func (n *node[V]) fit(o *owner) {
	if n.owner != o {
		return
	}
	if n.slots == nil {
		n.items = slices.Clone(n.items)
		return
	}
	for i, kid := range n.slots[:n.width()] {
		if kid.slots != nil || i>>kid.depth == 0 { // else seen in an earlier slot
			kid.fit(o)
		}
	}
}

// set returns the node with it in place of n and reports whether its key was
// there before. The first shift bits of h have led to n.
func (n *node[V]) set(o *owner, h uint64, shift uint, it item[V]) (*node[V], bool) {
	if n.slots != nil {
		n = n.own(o, 0)
		i := n.slot(h, shift)
		kid, found := n.slots[i].set(o, h, shift+slotBits, it)
		n.put(i, kid)
		if len(kid.items) > leafSize {
			n.split(o, i, shift)
		}
		return n, found
	}
	if i := n.find(h, it.key); i >= 0 {
		n = n.own(o, 0)
		n.items[i] = it
		return n, true
	}
	n = n.own(o, 1)
	n.add(tag(h), it)
	if shift == 0 && len(n.items) > leafSize {
		n = directory(o, n)
		n.split(o, 0, 0)
	}
	return n, false
}

// put makes kid the child at slot i: a leaf in all the slots it stands for.
func (n *node[V]) put(i uint64, kid *node[V]) {
	if kid.slots != nil {
		n.slots[i] = kid
		return
	}
	step := uint64(1) << kid.depth
	for i &= step - 1; i < n.width(); i += step {
		n.slots[i] = kid
	}
}

// add appends an item to a leaf that may be changed.
func (n *node[V]) add(t uint8, it item[V]) {
	i := len(n.items)
	if i == cap(n.items) {
		n.items = append(make([]item[V], 0, i+growth), n.items...)
	}
	n.items = append(n.items, it)
	n.mark(i, t)
}

// mark sets the tag of item i. Items that a leaf has beyond its size, because
// their hashes are equal, have none.
func (n *node[V]) mark(i int, t uint8) {
	if i < leafSize {
		at := i % 8 * 8
		n.tags[i/8] = n.tags[i/8]&^(0xff<<at) | uint64(t)<<at
	}
}

// split divides the leaf at slot i of a directory until no part is too large.
func (n *node[V]) split(o *owner, i uint64, shift uint) {
	leaf := n.slots[i]
	if len(leaf.items) <= leafSize {
		return
	}
	if 1<<leaf.depth == n.width() {
		switch {
		case n.width() < 1<<slotBits:
			n.double()
		case shift < maxShift:
			leaf.depth = 0
			n.slots[i] = directory(o, leaf)
			n.slots[i].split(o, 0, shift+slotBits)
			return
		default:
			return
		}
	}
	bit := uint64(1) << leaf.depth
	var half [2]*node[V]
	for b := range half {
		half[b] = &node[V]{owner: o, depth: leaf.depth + 1}
	}
	for _, it := range leaf.items {
		h := o.hash(it.key)
		half[h>>shift>>leaf.depth&1].add(tag(h), it)
	}
	i &= bit - 1
	for b, kid := range half {
		n.put(i|uint64(b)*bit, kid)
	}
	for b := range half {
		n.split(o, i|uint64(b)*bit, shift)
	}
}

// del returns what stands in place of n without key, which is there.
func (n *node[V]) del(o *owner, h uint64, shift uint, key string) *node[V] {
	n = n.own(o, 0)
	if n.slots == nil {
		n.remove(o, n.find(h, key))
		return n
	}
	i := n.slot(h, shift)
	was := n.slots[i]
	kid := was.del(o, h, shift+slotBits, key)
	if was.slots != nil && kid.slots == nil {
		kid.depth = slotBits
	}
	n.put(i, kid)
	return n.merge(o, i)
}

// remove takes item i out of a leaf that may be changed.
func (n *node[V]) remove(o *owner, i int) {
	last := len(n.items) - 1
	n.items[i] = n.items[last]
	n.mark(i, tag(o.hash(n.items[i].key)))
	clear(n.items[last:])
	n.items = n.items[:last]
}

// merge joins the leaf at slot i of a directory with its other half for as long
// as both are small, and returns what is to stand in place of the directory.
func (n *node[V]) merge(o *owner, i uint64) *node[V] {
	joined := false
	for {
		leaf := n.slots[i]
		if leaf.slots != nil || leaf.depth == 0 {
			break
		}
		other := n.slots[i&(1<<leaf.depth-1)^1<<(leaf.depth-1)]
		if other.slots != nil || other.depth != leaf.depth || len(leaf.items)+len(other.items) > leafSize/2 {
			break
		}
		leaf = leaf.own(o, len(other.items))
		for _, it := range other.items {
			leaf.add(tag(o.hash(it.key)), it)
		}
		leaf.depth--
		n.put(i, leaf)
		joined = true
	}
	if !joined {
		return n
	}
	for w := n.width(); w > 1 && slices.Equal(n.slots[:w/2], n.slots[w/2:w]); w /= 2 {
		clear(n.slots[w/2 : w])
		n.mask = uint8(w/2 - 1)
	}
	if n.mask == 0 {
		return n.slots[0]
	}
	return n
}
