package router

import (
	"slices"
	"strings"
)

// A tree is an immutable radix tree from string to T; nil is the empty one. A
// change copies the nodes on its way.
type tree[T any] struct {
	edge   string // what leads here from the parent
	labels string // the first byte of each kid's edge
	kids   []*tree[T]
	value  T
	has    bool // whether a key ends here
}

// up calls visit with the values of the keys that key starts with, the longest
// first, until one returns true, and reports whether one did.
func (n *tree[T]) up(key string, visit func(T) bool) bool {
	if n == nil || !strings.HasPrefix(key, n.edge) {
		return false
	}
	if rest := key[len(n.edge):]; rest != "" {
		if i := strings.IndexByte(n.labels, rest[0]); i >= 0 && n.kids[i].up(rest, visit) {
			return true
		}
	}
	return n.has && visit(n.value)
}

func (n *tree[T]) get(key string) (v T, ok bool) {
	for n != nil && strings.HasPrefix(key, n.edge) {
		if key = key[len(n.edge):]; key == "" {
			return n.value, n.has
		}
		i := strings.IndexByte(n.labels, key[0])
		if i < 0 {
			break
		}
		n = n.kids[i]
	}
	return v, false
}

// set returns the tree with v under key.
func (n *tree[T]) set(key string, v T) *tree[T] {
	if n == nil {
		return &tree[T]{edge: key, value: v, has: true}
	}
	p := common(n.edge, key)
	if p < len(n.edge) {
		lower := *n
		lower.edge = n.edge[p:]
		fork := &tree[T]{edge: key[:p]}
		fork.addKid(&lower)
		return fork.set(key, v)
	}
	c := *n
	rest := key[p:]
	if rest == "" {
		c.value, c.has = v, true
		return &c
	}
	c.kids = slices.Clone(n.kids)
	if i := strings.IndexByte(n.labels, rest[0]); i >= 0 {
		c.kids[i] = n.kids[i].set(rest, v)
	} else {
		c.addKid(&tree[T]{edge: rest, value: v, has: true})
	}
	return &c
}

// del returns the tree without key.
func (n *tree[T]) del(key string) *tree[T] {
	if n == nil || !strings.HasPrefix(key, n.edge) {
		return n
	}
	c := *n
	if rest := key[len(n.edge):]; rest == "" {
		var none T
		c.value, c.has = none, false
	} else {
		i := strings.IndexByte(n.labels, rest[0])
		if i < 0 {
			return n
		}
		switch kid := n.kids[i].del(rest); kid {
		case n.kids[i]:
			return n
		case nil:
			c.labels = n.labels[:i] + n.labels[i+1:]
			c.kids = slices.Concat(n.kids[:i], n.kids[i+1:])
		default:
			c.kids = slices.Clone(n.kids)
			c.kids[i] = kid
		}
	}
	return c.tidy()
}

// tidy returns what is to stand in place of a node that lost its value or a kid.
func (n *tree[T]) tidy() *tree[T] {
	switch {
	case n.has || len(n.kids) > 1:
		return n
	case len(n.kids) == 0:
		return nil
	}
	kid := *n.kids[0]
	kid.edge = n.edge + kid.edge
	return &kid
}

func (n *tree[T]) addKid(kid *tree[T]) {
	n.labels += kid.edge[:1]
	n.kids = append(n.kids, kid)
}

// common is the length of the longest common prefix.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
