package portal

import (
	"fmt"
	"time"

	"weir/internal/dialect/apicast"
)

// An unread is a service that the configuration has and that cannot be read, so
// that it does not say which it is: it may be any of those that were served before
// and that are not there since.
type unread struct {
	key  string // tells it from the others of its host
	host string // that was loaded; empty: all were
	why  error
	ids  []string // the products that it may be, which stay as they are
}

// suspects are what cannot be read of what was loaded for a host, or of all; gone
// says of products that they should be there and are not. Those that went when
// something that cannot be read came may be it. What cannot be read as before is
// none of those that go later: they were deleted.
func (s *state) suspects(host string, broken []*apicast.Entry, gone func(*product) bool) []unread {
	if len(broken) == 0 {
		return nil
	}
	before := map[string]unread{}
	for _, u := range s.unread {
		if u.host == host {
			before[u.key] = u
		}
	}
	taken, times, left := map[string]bool{}, map[string]int{}, map[*string][]string{}
	now := make([]unread, 0, len(broken))
	var news []int // in now: those that may be what goes now
	for _, e := range broken {
		text := string(e.Service)
		u := unread{key: fmt.Sprint(text, times[text]), host: host, why: e.Unread}
		times[text]++
		was, known := before[u.key]
		if len(was.ids) > 0 {
			all, seen := left[&was.ids[0]]
			if !seen {
				all = s.those(was.ids, gone)
				left[&was.ids[0]] = all
				for _, id := range all {
					taken[id] = true
				}
			}
			u.ids = all
		}
		switch p := s.byID[e.ID]; {
		case e.ID != "":
			if u.ids = nil; p != nil && gone(p) {
				u.ids, taken[e.ID] = []string{e.ID}, true
			}
		case !known || len(was.ids) > 0 && len(u.ids) == 0: // or what it was is back
			news = append(news, len(now))
		}
		now = append(now, u)
	}
	if len(news) == 0 {
		return now
	}
	var ids []string
	for _, p := range s.order {
		if !taken[p.ID] && gone(p) {
			ids = append(ids, p.ID)
		}
	}
	for _, i := range news {
		now[i].ids = ids
	}
	return now
}

// those are the products of these that gone says it of.
func (s *state) those(ids []string, gone func(*product) bool) (all []string) {
	for _, id := range ids {
		if p := s.byID[id]; p != nil && gone(p) {
			all = append(all, id)
		}
	}
	return all
}

// keeping is an order with the products that what cannot be read may be: each
// behind the one that it was behind.
func (s *state) keeping(order []*product, now []unread) []*product {
	kept := idsOf(now)
	if len(kept) == 0 {
		return order
	}
	there := make(map[string]bool, len(order))
	for _, p := range order {
		there[p.ID] = true
	}
	behind, last := map[string][]*product{}, ""
	for _, p := range s.order {
		switch {
		case there[p.ID]:
			last = p.ID
		case kept[p.ID]:
			behind[last] = append(behind[last], p)
		}
	}
	all := append(make([]*product, 0, len(order)+len(kept)), behind[""]...)
	for _, p := range order {
		all = append(append(all, p), behind[p.ID]...)
	}
	return all
}

// idsOf are the products that what cannot be read may be.
func idsOf(now []unread) map[string]bool {
	ids := map[string]bool{}
	for id := range reasons(now) {
		ids[id] = true
	}
	return ids
}

// reasons are the products that what cannot be read may be, and why it cannot.
func reasons(now []unread) map[string]error {
	all, seen := map[string]error{}, map[*string]bool{}
	for _, u := range now {
		if len(u.ids) == 0 || seen[&u.ids[0]] {
			continue
		}
		seen[&u.ids[0]] = true // several share one list
		for _, id := range u.ids {
			all[id] = u.why
		}
	}
	return all
}

// Broken are the products that run as they were configured before, because what
// the configuration says of them cannot be read, by id, and why.
func (s *Source) Broken() map[string]error { return reasons(s.current.Load().unread) }

// warn tells of what cannot be read in what was loaded for a host, or in all, once.
func (s *Source) warn(out *loaded, old, next *state) {
	const most = 100
	host, known, told := out.scope(), map[string]bool{}, 0
	for _, u := range old.unread {
		known[u.host+" "+u.key] = true
	}
	for _, u := range next.unread {
		if u.host != host || known[u.host+" "+u.key] {
			continue
		}
		if told++; told <= most {
			s.cfg.Log.Warn("3scale configuration: a service cannot be read, what runs of it stays in force", "products", u.ids[:min(len(u.ids), most)], "err", u.why)
		}
	}
	if told > most {
		s.cfg.Log.Warn("3scale configuration: more cannot be read", "services", told-most)
	}
	if len(next.unread) == 0 && len(out.unread) > 0 && s.hosts.unread.Ready(time.Now()) {
		s.cfg.Log.Warn("3scale configuration: a service cannot be read, and none runs", "host", host, "err", out.unread[0].Unread)
	}
}
