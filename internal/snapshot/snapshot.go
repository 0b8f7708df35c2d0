// Package snapshot makes the next immutable state of the gateway from the
// previous one and a delta. Work is proportional to the delta, widened by a
// small table of references and never "to be safe": an object whose content did
// not change keeps its compiled form, pointer for pointer.
package snapshot

import (
	"iter"
	"weir/internal/cert"
	"weir/internal/cow"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/router"
	"weir/internal/threescale"
)

// A Snapshot is the whole state of one revision. Nothing in it changes; any
// number of goroutines may read it.
type Snapshot struct {
	// Revision is the store's revision that this state has.
	Revision int64

	seq       uint64 // counts states of this process, from 1
	router    router.Router[*Route]
	routes    cow.Map[*routeEntry]
	services  cow.Map[*serviceEntry]
	upstreams cow.Map[*upstreamEntry]
	sets      [model.KindCount]cow.Map[*setEntry] // plugin configs, consumer groups, global rules
	documents [model.KindCount]cow.Map[*storedDocument]
	records   [model.KindCount]cow.Map[recordEntry] // consumers, credentials

	ssls  cow.Map[*sslEntry]
	certs cert.Set // of the ssl objects for servers

	products cow.Map[*productEntry]
	hosts    cow.Map[host] // of products

	streams     cow.Map[*streamEntry]
	streamTable streamTable

	index    map[string]*cow.Map[*record] // by plugin, then key
	disputed cow.Map[[]*record]           // plugin NUL key: every claim of a key with several
	with     *compiler                    // of the plugins that are enabled

	global *plan.Plan // of all global rules; nil: none
	closed bool       // a global rule that may be a guard cannot run

	faults cow.Map[error] // by path of the object
}

// A Route is a compiled route, ready to run. What every request asks of it stands
// first.
type Route struct {
	// Fault, if not 0, is the status that answers every request of this route,
	// because it cannot run as configured. Plan is then nil.
	Fault int

	Plan *plan.Plan

	// Upstream is the inline upstream of the route or its service; UpstreamID
	// names one that is looked up in the request's own snapshot, so that an
	// upstream's change leaves the route alone.
	Upstream   *Upstream
	UpstreamID string

	Timeout   *model.Timeout // nil: the upstream's
	Websocket bool

	// Product is set for a 3scale product, whose policies choose the upstream.
	Product *threescale.Product

	// Handshake is for the product's hosts; nil: they have the gateway's own.
	Handshake *cert.Certificate

	plugin.Route
}

// Match finds the route of a request, or nil.
func (s *Snapshot) Match(c *plugin.Ctx) *Route {
	m, ok := s.router.Match(router.Request{Method: c.Request.Method, Host: c.Request.Host, Path: c.PathToMatch()}, c)
	if !ok {
		return nil
	}
	c.MatchedPath, c.MatchedHost, c.Pattern = m.Path, m.Host, m.Pattern()
	return m.Value
}

// Global is the plan of all global rules, nil if there are none. ok is false if
// one that may guard something cannot run: no request may pass then.
func (s *Snapshot) Global() (p *plan.Plan, ok bool) { return s.global, !s.closed }

// Attach adds what else runs for an authenticated consumer. fault, if not 0, is
// the status that answers instead: its group does not exist.
func (s *Snapshot) Attach(run *plan.Run, c *plugin.Consumer) (fault int) {
	own, _ := c.Plan.(*plan.Plan)
	if c.GroupID == "" {
		run.Attach(nil, own)
		return 0
	}
	group, ok := s.sets[model.KindConsumerGroup].Get(c.GroupID)
	if !ok || group.plan == nil || group.closed {
		return 503
	}
	run.Attach(group.plan, own)
	return 0
}

// Upstream returns where a request of r goes. id, if not empty, replaces the
// route's own choice. If there is no such upstream, fault is the status that
// answers: 502 for a name that is not there, 503 for no usable upstream at all
// (apisix-runtime.md §1, §10).
func (s *Snapshot) Upstream(r *Route, id string) (u *Upstream, fault int) {
	if id == "" {
		id = r.UpstreamID
	}
	if id == "" {
		if r.Upstream == nil {
			return nil, 503
		}
		return r.Upstream, 0
	}
	e, ok := s.upstreams.Get(id)
	switch {
	case !ok:
		return nil, 502
	case e.running == nil && e.foreign:
		return nil, 503
	case e.running == nil:
		return nil, 502 // as APISIX, which does not take it
	}
	return e.running, 0
}

// Count is the number of objects of a kind.
func (s *Snapshot) Count(k model.Kind) int {
	switch k {
	case model.KindRoute:
		return s.routes.Len()
	case model.KindService:
		return s.services.Len()
	case model.KindUpstream:
		return s.upstreams.Len()
	case model.KindConsumer, model.KindCredential:
		return s.records[k].Len()
	case model.KindProduct:
		return s.products.Len()
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		return s.sets[k].Len()
	}
	return s.documents[k].Len()
}

// Object returns an object as it was delivered, whether or not it runs.
func (s *Snapshot) Object(key model.Key) (model.Object, bool) {
	switch key.Kind {
	case model.KindRoute:
		if e, ok := s.routes.Get(key.ID); ok {
			return e.Object, true
		}
	case model.KindService:
		if e, ok := s.services.Get(key.ID); ok {
			return e.Object, true
		}
	case model.KindUpstream:
		if e, ok := s.upstreams.Get(key.ID); ok {
			return e.Object, true
		}
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		if e, ok := s.sets[key.Kind].Get(key.ID); ok {
			return e.Object, true
		}
	case model.KindConsumer, model.KindCredential:
		if r, ok := s.records[key.Kind].Get(key.ID); ok {
			return r.object(), true
		}
	case model.KindProduct:
		if e, ok := s.products.Get(key.ID); ok {
			return e.Object, true
		}
	default:
		if d, ok := s.documents[key.Kind].Get(key.ID); ok {
			return d.Object, true
		}
	}
	return model.Object{}, false
}

// Whole yields all objects, products left out: they have a source of their own.
func (s *Snapshot) Whole() iter.Seq[model.Object] {
	return func(yield func(model.Object) bool) {
		for k := range model.KindProduct {
			for o := range s.Objects(k) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Exists says whether the state holds the object.
func (s *Snapshot) Exists(k model.Kind, id string) bool {
	_, ok := s.Object(model.Key{Kind: k, ID: id})
	return ok
}

// Fault returns why the stored form of an object is not the running one, or nil.
func (s *Snapshot) Fault(key model.Key) error {
	for path, err := range s.Faults {
		if path == key.String() {
			return err
		}
	}
	return nil
}

// Faults yields every object that does not run as stored, and why. An object
// may come twice.
func (s *Snapshot) Faults(yield func(path string, err error) bool) {
	for path, err := range s.faults.All() {
		if !yield(path, err) {
			return
		}
	}
	for r, err := range s.disputes {
		if !yield(model.Key{Kind: r.kind(), ID: r.id()}.String(), err) {
			return
		}
	}
}
