package router

import "weir/internal/cow"

// A table has the entries of one host pattern.
type table[V any] struct {
	host   string             // the pattern; empty: of no host
	exact  cow.Map[places[V]] // by path
	prefix *tree[places[V]]   // by prefix
}

func (t *table[V]) empty() bool { return t.exact.Len() == 0 && t.prefix == nil }

// match returns the entry for a request, or nil: those of the exact path, then
// those of the longest prefix, then of shorter ones.
func (t *table[V]) match(l *lookup, h *hostName) *entry[V] {
	if p, ok := t.exact.Get(l.path); ok {
		if e := p.find(l, h); e != nil {
			return e
		}
	}
	var found *entry[V]
	t.prefix.up(l.path, func(p places[V]) bool {
		found = p.find(l, h)
		return found != nil
	})
	return found
}

// hosts are the tables of hosts: exact ones, and suffixes, spelled backwards.
type hosts[V any] struct {
	exact  cow.Map[*table[V]]
	suffix *tree[*table[V]]
}

func (s *hosts[V]) matchExact(name string, l *lookup, h *hostName) (*entry[V], *table[V]) {
	if s.exact.Len() == 0 {
		return nil, nil
	}
	t, ok := s.exact.Get(name)
	if !ok {
		return nil, nil
	}
	return t.match(l, h), t
}

func (s *hosts[V]) matchSuffix(name string, l *lookup, h *hostName) (found *entry[V], in *table[V]) {
	if s.suffix == nil {
		return nil, nil
	}
	var buf [hostSize]byte
	s.suffix.up(reverse(name, buf[:]), func(t *table[V]) bool {
		found, in = t.match(l, h), t
		return found != nil
	})
	return found, in
}
