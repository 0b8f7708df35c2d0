package router

import (
	"cmp"
	"slices"
	"strings"

	"weir/internal/cow"
)

// An Edit collects changes to a Router. It belongs to one goroutine.
type Edit[V any] struct {
	from Router[V]
	want map[*Route[V]]bool // of the touched routes: whether they are to be in
}

// Edit starts a change; r stays as it is.
func (r *Router[V]) Edit() *Edit[V] {
	return &Edit[V]{from: *r, want: map[*Route[V]]bool{}}
}

// Insert adds a route. One that is there already stays.
func (e *Edit[V]) Insert(route *Route[V]) { e.want[route] = true }

// Remove takes out exactly this route; another of the same ID stays. Nothing
// happens if it is not there.
func (e *Edit[V]) Remove(route *Route[V]) { e.want[route] = false }

// Put removes old and inserts new; nil is none.
func (e *Edit[V]) Put(old, new *Route[V]) {
	if old != nil {
		e.Remove(old)
	}
	if new != nil {
		e.Insert(new)
	}
}

// Router ends the change and returns its result. A later change through e
// starts from that result and leaves it alone.
func (e *Edit[V]) Router() Router[V] {
	r := e.from
	sets := [2]hostsEdit[V]{
		{hosts: &r.plain, exact: r.plain.exact.Edit()},
		{hosts: &r.ported, exact: r.ported.exact.Edit()},
	}
	changes := e.changes()
	for n := 0; len(changes) > 0; changes = changes[n:] {
		host := changes[0].host
		n = run(changes, func(c change[V]) bool { return c.host == host })
		if host == "" {
			r.any = e.table(r.any, changes[:n])
			continue
		}
		set := &sets[0]
		if parseHost(host).port {
			set = &sets[1]
		}
		old := set.get(host)
		if old == nil {
			old = &table[V]{host: host}
		}
		set.put(host, e.table(*old, changes[:n]))
	}
	for i := range sets {
		sets[i].hosts.exact = sets[i].exact.Map()
	}
	e.from = r
	clear(e.want)
	return r
}

// A change says that a place is touched, and the entry to be there afterwards,
// if any. Touched routes leave the place first.
type change[V any] struct {
	host  string
	entry *entry[V]
}

// changes lists every place of every touched route, place by place.
func (e *Edit[V]) changes() []change[V] {
	var list []change[V]
	for route := range e.want {
		hosts := []string{""}
		if e.from.kind == HostURI && len(route.Hosts) > 0 {
			hosts = namesOf(route.Hosts)
		}
		entries := entriesOf(route, e.from.kind)
		for _, host := range hosts {
			for _, entry := range entries {
				list = append(list, change[V]{host, entry})
			}
		}
	}
	slices.SortFunc(list, func(a, b change[V]) int {
		return cmp.Or(
			strings.Compare(a.host, b.host),
			comparePlaces(a.entry, b.entry),
			compare(a.entry, b.entry),
		)
	})
	return list
}

// namesOf are the hosts in small letters, each once.
func namesOf(hosts []string) []string {
	var names []string
	for _, h := range hosts {
		if h != "" {
			names = append(names, strings.ToLower(h))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func comparePlaces[V any](a, b *entry[V]) int {
	if a.exact != b.exact {
		if a.exact {
			return -1
		}
		return 1
	}
	return strings.Compare(a.prefix, b.prefix)
}

// table returns t with the changes, which are all of its host.
func (e *Edit[V]) table(t table[V], changes []change[V]) table[V] {
	exact := t.exact.Edit()
	for n := 0; len(changes) > 0; changes = changes[n:] {
		at := changes[0].entry
		n = run(changes, func(c change[V]) bool { return comparePlaces(c.entry, at) == 0 })
		if at.exact {
			old, _ := exact.Get(at.prefix)
			if list := e.list(old.list(), changes[:n]); len(list) > 0 {
				exact.Set(at.prefix, placesOf(list))
			} else {
				exact.Del(at.prefix)
			}
			continue
		}
		old, _ := t.prefix.get(at.prefix)
		if list := e.list(old.list(), changes[:n]); len(list) > 0 {
			t.prefix = t.prefix.set(at.prefix, placesOf(list))
		} else {
			t.prefix = t.prefix.del(at.prefix)
		}
	}
	t.exact = exact.Map()
	return t
}

// list merges the changes of one place with the entries that are there. Both are
// in order, and every entry of a touched route is the equal of a change.
func (e *Edit[V]) list(old []*entry[V], changes []change[V]) []*entry[V] {
	list := make([]*entry[V], 0, len(old)+len(changes))
	for _, c := range changes {
		n, _ := slices.BinarySearchFunc(old, c.entry, compare)
		list, old = append(list, old[:n]...), old[n:]
		for len(old) > 0 && compare(old[0], c.entry) == 0 {
			if _, touched := e.want[old[0].route]; !touched {
				list = append(list, old[0])
			}
			old = old[1:]
		}
		if e.want[c.entry.route] {
			list = append(list, c.entry)
		}
	}
	return slices.Clip(append(list, old...))
}

// run is the length of the run of changes at the start of list that are the same.
func run[V any](list []change[V], same func(change[V]) bool) int {
	if i := slices.IndexFunc(list, func(c change[V]) bool { return !same(c) }); i >= 0 {
		return i
	}
	return len(list)
}

// A hostsEdit changes the tables of hosts.
type hostsEdit[V any] struct {
	hosts *hosts[V]
	exact *cow.Edit[*table[V]]
}

func (h *hostsEdit[V]) get(host string) *table[V] {
	if suffix, ok := strings.CutPrefix(host, "*"); ok {
		t, _ := h.hosts.suffix.get(reverse(suffix, nil))
		return t
	}
	t, _ := h.exact.Get(host)
	return t
}

// put stores t, or drops what was there if t is empty.
func (h *hostsEdit[V]) put(host string, t table[V]) {
	suffix, wild := strings.CutPrefix(host, "*")
	switch {
	case wild && t.empty():
		h.hosts.suffix = h.hosts.suffix.del(reverse(suffix, nil))
	case wild:
		h.hosts.suffix = h.hosts.suffix.set(reverse(suffix, nil), &t)
	case t.empty():
		h.exact.Del(host)
	default:
		h.exact.Set(host, &t)
	}
}
