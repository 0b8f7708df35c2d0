package portal

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"weir/internal/dialect/apicast"
	"weir/internal/document"
	"weir/internal/model"
)

// A service is one that was loaded.
type service struct {
	*apicast.Entry
	oidc json.RawMessage // of the document, or discovered; nil: none
}

// A state is what is served. It is immutable.
type state struct {
	configured bool
	revision   int64
	order      []*product // numbers increase
	byID       map[string]*product
	unread     []unread
}

// A product is a service that is served.
type product struct {
	service
	digest [sha256.Size]byte
	object *model.Object
}

// with is the product of a service: the same one as before, if its document says
// the same.
func (s *state) with(v service, revision int64) *product {
	old := s.byID[v.ID]
	if old != nil && old.Entry == v.Entry && bytes.Equal(old.oidc, v.oidc) {
		return old
	}
	h := sha256.New()
	h.Write(v.Service)
	h.Write([]byte{0})
	h.Write(v.oidc)
	p := &product{service: v}
	h.Sum(p.digest[:0])
	if old != nil && (old.digest == p.digest || sameJSON(old.Service, v.Service) && sameJSON(old.oidc, v.oidc)) {
		p.object = old.object
		return p
	}
	p.object = &model.Object{
		Key: model.Key{Kind: model.KindProduct, ID: v.ID}, Modified: revision, Raw: v.Product(v.oidc), Fault: v.Fault,
	}
	return p
}

// sameJSON says that two texts are one document, whatever the order of members
// and the spaces between them.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := document.Parse(a)
	if err != nil {
		return false
	}
	y, err := document.Parse(b)
	return err == nil && sameValue(x, y)
}

func sameValue(a, b *document.Value) bool {
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !sameValue(a.Items[i], b.Items[i]) {
			return false
		}
	}
	sortMembers(a)
	sortMembers(b)
	for i := range a.Members {
		if a.Members[i].Name != b.Members[i].Name || !sameValue(a.Members[i].Value, b.Members[i].Value) {
			return false
		}
	}
	return true
}

func sortMembers(v *document.Value) {
	slices.SortFunc(v.Members, func(a, b document.Member) int { return strings.Compare(a.Name, b.Name) })
}

// loaded is the state after something was loaded.
func (s *state) loaded(out *loaded) *state {
	if out.whole {
		return s.whole(out.services, out.unread)
	}
	return s.merged(out.host, out.services, out.unread)
}

// whole is the state in which services, and what cannot be read, is all there is.
func (s *state) whole(services []service, broken []*apicast.Entry) *state {
	order, listed := make([]*product, len(services)), make(map[string]bool, len(services))
	for i, v := range services {
		order[i] = s.with(v, s.revision+1)
		listed[v.ID] = true
	}
	now := s.suspects("", broken, func(p *product) bool { return !listed[p.ID] })
	next := s.next(s.keeping(order, now))
	next.unread = now
	return next
}

// merged is the state after services, and what cannot be read, were loaded for a
// host: they are all that serves it.
func (s *state) merged(host string, services []service, broken []*apicast.Entry) *state {
	loaded := make(map[string]bool, len(services))
	news := make([]*product, len(services))
	ordered, last := true, int64(0)
	for i, v := range services {
		loaded[v.ID] = true
		news[i] = s.with(v, s.revision+1)
		if old := s.byID[v.ID]; old != nil {
			ordered = ordered && old.object.Created > last
			last = old.object.Created
		}
	}
	now := s.suspects(host, broken, func(p *product) bool { return !loaded[p.ID] && slices.Contains(p.Hosts, host) })
	kept := idsOf(now)
	var order []*product
	for _, p := range s.order {
		switch {
		case !loaded[p.ID]:
			if kept[p.ID] || !slices.Contains(p.Hosts, host) {
				order = append(order, p)
			}
		case ordered:
			// Before it come those that stand before it in what was loaded.
			at := slices.IndexFunc(news, func(n *product) bool { return n.ID == p.ID })
			order = append(order, news[:at+1]...)
			news = news[at+1:]
		}
	}
	next := s.next(append(order, news...))
	next.unread = slices.DeleteFunc(slices.Clone(s.unread), func(u unread) bool { return u.host == host })
	if len(services)+len(kept) > 0 { // the names of hosts are clients': not every one may be remembered
		next.unread = append(next.unread, now...)
	}
	return next
}

// rekeyed is the state in which the products of an issuer have another OIDC part.
func (s *state) rekeyed(issuer string, oidc json.RawMessage) *state {
	order := slices.Clone(s.order)
	for i, p := range order {
		if p.Issuer == issuer {
			order[i] = s.with(service{p.Entry, oidc}, s.revision+1)
		}
	}
	next := s.next(order)
	next.unread = s.unread
	return next
}

// next is the state with these products, in this order.
func (s *state) next(order []*product) *state {
	n := &state{configured: true, revision: s.revision + 1, order: order, byID: make(map[string]*product, len(order))}
	have := make([]int64, len(order))
	for i, p := range order {
		n.byID[p.ID] = p
		if old := s.byID[p.ID]; old != nil {
			have[i] = old.object.Created
		}
	}
	for i, number := range place(have) {
		if p := order[i]; p.object.Created != number {
			moved, object := *p, *p.object
			object.Created = number
			moved.object = &object
			order[i], n.byID[p.ID] = &moved, &moved
		}
	}
	return n
}

// since is the step from an earlier state to this one; empty: there is none.
func (s *state) since(old *state) model.Delta {
	d := model.Delta{Revision: s.revision}
	for _, p := range s.order {
		if was := old.byID[p.ID]; was == nil || was.object != p.object {
			d.Put = append(d.Put, *p.object)
		}
	}
	for _, p := range old.order {
		if s.byID[p.ID] == nil {
			d.Del = append(d.Del, p.object.Key)
		}
	}
	return d
}

// Document is the configuration that is served, as a document of APIcast; oidc
// says whether its OIDC list is in it.
func (s *state) document(oidc bool) []byte {
	out := []byte(`{"services":[`)
	for i, p := range s.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.Service...)
	}
	out = append(out, ']')
	if !oidc {
		return append(out, '}')
	}
	out = append(out, `,"oidc":[`...)
	for i, p := range s.order {
		if i > 0 {
			out = append(out, ',')
		}
		if p.oidc != nil {
			out = append(out, p.oidc...)
			continue
		}
		out = document.AppendText(append(out, `{"service_id":`...), p.ID)
		out = append(out, '}')
	}
	return append(out, `]}`...)
}
