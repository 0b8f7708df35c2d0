package router

import "weir/internal/cow"

// A table has the entries of one host pattern.
type table[V any] struct {
	host   string               // the pattern; empty: of no host
	exact  cow.Map[[]*entry[V]] // by path
	prefix *tree[[]*entry[V]]   // by prefix
}

func (t *table[V]) empty() bool { return t.exact.Len() == 0 && t.prefix == nil }

// match returns the entry for a request, or nil: those of the exact path, then
// those of the longest prefix, then of shorter ones.
func (t *table[V]) match(l *lookup) *entry[V] {
	if list, ok := t.exact.Get(l.path); ok {
		if e := first(list, l); e != nil {
			return e
		}
	}
	var found *entry[V]
	t.prefix.up(l.path, func(list []*entry[V]) bool {
		found = first(list, l)
		return found != nil
	})
	return found
}

// hosts are the tables of hosts: exact ones, and suffixes, spelled backwards.
type hosts[V any] struct {
	exact  cow.Map[*table[V]]
	suffix *tree[*table[V]]
}

func (h *hosts[V]) matchExact(host string, l *lookup) (*entry[V], *table[V]) {
	if h.exact.Len() == 0 {
		return nil, nil
	}
	t, ok := h.exact.Get(host)
	if !ok {
		return nil, nil
	}
	return t.match(l), t
}

func (h *hosts[V]) matchSuffix(host string, l *lookup) (found *entry[V], in *table[V]) {
	if h.suffix == nil {
		return nil, nil
	}
	var buf [hostSize]byte
	h.suffix.up(reverse(host, buf[:]), func(t *table[V]) bool {
		found, in = t.match(l), t
		return found != nil
	})
	return found, in
}
