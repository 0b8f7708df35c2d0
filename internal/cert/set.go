package cert

import (
	"cmp"
	"slices"
	"strings"

	"weir/internal/cow"
)

// An Entry is a Certificate in a Set and its place among those for one name: the
// one created first, then the lesser id, is used.
type Entry struct {
	*Certificate
	Created int64
}

// A Set finds certificates by name. It is immutable; the zero Set is empty.
type Set struct {
	byHost cow.Map[[]Entry]
	asking int // certificates that ask clients for one
}

// Find returns the certificate for a server name: an exact one, else one for
// "*." and the name without its first label, else one for "*"; nil if there is
// none. Case and a final dot do not matter.
func (s *Set) Find(name string) *Certificate {
	name = canonical(name)
	if c := s.first(name); c != nil || name == "" {
		return c
	}
	if dot := strings.IndexByte(name, '.'); dot >= 0 {
		if c := s.first("*" + name[dot:]); c != nil {
			return c
		}
	}
	return s.first("*")
}

// AsksClients says whether any certificate asks clients for one.
func (s *Set) AsksClients() bool { return s.asking > 0 }

func (s *Set) first(host string) *Certificate {
	if all, ok := s.byHost.Get(host); ok {
		return all[0].Certificate
	}
	return nil
}

// Edit starts a change; s stays as it is.
func (s *Set) Edit() *Edit { return &Edit{hosts: s.byHost.Edit(), asking: s.asking} }

// An Edit is a changed copy of a Set in the making.
type Edit struct {
	hosts  *cow.Edit[[]Entry]
	asking int
}

// Replace takes old out and puts new in; a nil Certificate stands for none.
func (e *Edit) Replace(old, new Entry) {
	if old.Certificate != nil {
		e.count(old, -1)
		for _, h := range old.Hosts {
			e.remove(canonical(h), old)
		}
	}
	if new.Certificate != nil {
		e.count(new, 1)
		for _, h := range new.Hosts {
			e.add(canonical(h), new)
		}
	}
}

func (e *Edit) count(x Entry, n int) {
	if x.ClientCAs != nil {
		e.asking += n
	}
}

func (e *Edit) remove(host string, old Entry) {
	all, _ := e.hosts.Get(host)
	all = slices.DeleteFunc(slices.Clone(all), func(x Entry) bool { return x.Certificate == old.Certificate })
	if len(all) == 0 {
		e.hosts.Del(host)
		return
	}
	e.hosts.Set(host, all)
}

func (e *Edit) add(host string, new Entry) {
	all, _ := e.hosts.Get(host)
	all = append(slices.Clone(all), new)
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID)) })
	e.hosts.Set(host, all)
}

// Set ends the change.
func (e *Edit) Set() Set { return Set{byHost: e.hosts.Map(), asking: e.asking} }

// canonical is a name without what does not matter: case and a final dot.
func canonical(name string) string { return strings.TrimSuffix(lower(name), ".") }

func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}
