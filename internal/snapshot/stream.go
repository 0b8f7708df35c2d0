package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/upstream"
)

// A StreamRoute is a compiled stream route, ready to run.
type StreamRoute struct {
	plugin.Route

	// Fault says that every session of this route ends at once, because the route
	// cannot run as configured. Plan is then nil.
	Fault bool

	Plan *plan.Stream

	// Upstream and UpstreamID are as in Route.
	Upstream   *Upstream
	UpstreamID string

	match streamMatch
}

// A streamEntry is a stored stream route; its fields are as in routeEntry.
type streamEntry struct {
	model.Object
	digest    apisix.Digest
	doc, good *model.StreamRoute
	running   *StreamRoute
}

// errProtocol is why a route for an xRPC protocol does not run.
type errProtocol string

func (e errProtocol) Error() string {
	return "protocol [" + string(e) + "] is not supported by this version of Weir yet"
}

func (errProtocol) Is(target error) bool { return target == upstream.ErrUnsupported }

// protocolFault says why a route's protocol cannot be served; nil: it has none.
func protocolFault(name string) error {
	switch name {
	case "":
		return nil
	case "redis", "dubbo":
		return errProtocol(name)
	}
	return fmt.Errorf("unknown protocol [%s]", name)
}

func (n *next) putStream(o model.Object) {
	n.documents[o.Kind].Set(o.ID, &storedDocument{o, o.Raw})
	old, _ := n.streams.Get(o.ID)
	e := &streamEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.doc, e.good, e.running = old.doc, old.good, old.running
		if old.digest == e.digest && sameVerdict(old.Object, o) {
			n.streams.Set(o.ID, e)
			return
		}
	}
	n.clearFault(o.Key)
	doc, err := apisix.StreamRoute(o.ID, o.Raw)
	if err == nil {
		e.doc = doc
	} else if e.Fault == nil {
		e.Fault = err
	}
	if e.doc != nil {
		n.touchedStreams[o.ID] = struct{}{}
	} else {
		n.compiled[o.Kind].Add(1)
		n.fault(o.Key, e.Fault)
	}
	n.setStream(old, e)
}

// setStream stores an entry and moves its references.
func (n *next) setStream(old, new *streamEntry) {
	n.users.move(new.Key, n.streamReferences(old), n.streamReferences(new))
	n.streams.Set(new.ID, new)
}

func (n *next) streamReferences(e *streamEntry) func(func(model.Key) bool) {
	return func(yield func(model.Key) bool) {
		if e == nil {
			return
		}
		for _, doc := range []*model.StreamRoute{e.doc, e.good} {
			if doc != nil && (!yield(model.Key{Kind: model.KindService, ID: doc.ServiceID}) ||
				!n.streamMetadata(doc.Plugins, yield)) {
				return
			}
		}
	}
}

// streamMetadata is metadata for the plugins of stream routes.
func (x *compiler) streamMetadata(plugins model.Plugins, yield func(model.Key) bool) bool {
	for name := range plugins {
		spec, known := x.allStreams[name]
		if known && spec.MetadataSchema() != nil && !yield(model.Key{Kind: model.KindPluginMetadata, ID: name}) {
			return false
		}
	}
	return true
}

func (n *next) removeStream(id string) {
	n.documents[model.KindStreamRoute].Del(id)
	e, ok := n.streams.Get(id)
	if !ok {
		return
	}
	n.users.move(e.Key, n.streamReferences(e), n.streamReferences(nil))
	n.replaceStream(e.running, nil)
	n.streams.Del(id)
	delete(n.touchedStreams, id)
}

// compileStreams compiles every touched stream route.
func (n *next) compileStreams() {
	for id := range n.touchedStreams {
		if e, ok := n.streams.Get(id); ok && e.doc != nil {
			n.setStream(e, n.compileStreamEntry(e))
		}
	}
}

// compileStreamEntry gives a route its new form: that of its document, else of
// its last good one, else one that closes connections, or none.
func (n *next) compileStreamEntry(e *streamEntry) *streamEntry {
	n.compiled[model.KindStreamRoute].Add(1)
	n.clearFault(e.Key)
	f := *e
	r, err := (*StreamRoute)(nil), e.Fault
	if err == nil {
		r, err = n.compileStream(e.doc, e.Created)
	}
	switch {
	case err == nil:
		f.good = e.doc
	case e.good != nil && n.exposesStream(e.Raw, e.good.Plugins):
		n.fault(e.Key, err)
		r = newStreamRoute(e.doc, e.Created)
		r.Fault = true
	case e.good != nil:
		n.fault(e.Key, err)
		if r, err = n.compileStream(e.good, e.Created); err != nil {
			if !n.chosen {
				return &f
			}
			r = n.streamRefusal(e.good, e.Created, err)
		}
	default:
		n.fault(e.Key, err)
		r = n.streamRefusal(e.doc, e.Created, err)
	}
	f.running = r
	n.replaceStream(e.running, r)
	return &f
}

// replaceStream changes what sessions match and retires what the old route used.
func (n *next) replaceStream(old, new *StreamRoute) {
	n.streamTable.replace(old, new)
	if old == nil {
		return
	}
	if old.Plan != nil {
		n.retire(old.Plan.Release)
	}
	if old.Upstream != nil {
		n.retire(old.Upstream.Close)
	}
}

// compileStream compiles a stream route with its service. A route below another
// one is never the first to see a connection and compiles to nil.
func (n *next) compileStream(doc *model.StreamRoute, created int64) (*StreamRoute, error) {
	if err := protocolFault(doc.Protocol); err != nil {
		return nil, err
	}
	r := newStreamRoute(doc, created)
	service, ok := n.streamService(doc)
	if !ok {
		r.Fault = true
		return r, n.checkStream(doc)
	}
	confs := confsOf("stream_routes/"+doc.ID, doc.Plugins)
	if service != nil && service.closed && n.exposesSessions(service) {
		r.Fault = true
		return r, n.checkStream(doc)
	}
	if service != nil {
		r.ServiceName = service.service.Name
		r.Labels = orElse(r.Labels, service.service.Labels)
		confs = addMissing(confs, n.forStreams(confsOf("services/"+service.ID, service.service.Plugins)))
	}
	var err error
	if r.Plan, err = n.compileStreamPlan(confs); err != nil {
		return nil, err
	}
	if err := n.streamUpstream(doc, service, r, created); err != nil {
		r.Plan.Release()
		return nil, err
	}
	return r, nil
}

func newStreamRoute(doc *model.StreamRoute, created int64) *StreamRoute {
	return &StreamRoute{
		Route: plugin.Route{ID: doc.ID, Name: doc.Name, ServiceID: doc.ServiceID, Labels: doc.Labels},
		match: streamMatch{
			sni: serverName(doc.SNI), port: doc.ServerPort, remote: doc.RemoteAddr, server: doc.ServerAddr, created: created,
		},
	}
}

// streamService is serviceOf for a stream route.
func (n *next) streamService(doc *model.StreamRoute) (*serviceEntry, bool) {
	return n.serviceOf(&model.Route{ServiceID: doc.ServiceID})
}

// streamUpstream settles where sessions go: what the route says wins over what
// its service says, and a reference over an upstream that stands there.
func (n *next) streamUpstream(doc *model.StreamRoute, service *serviceEntry, r *StreamRoute, created int64) (err error) {
	switch {
	case doc.UpstreamID != "":
		r.UpstreamID = doc.UpstreamID
	case doc.Upstream != nil:
		r.Upstream, err = n.compileInline(doc.Upstream, "stream_routes/"+doc.ID, created)
	case service == nil:
	case service.service.UpstreamID != "":
		r.UpstreamID = service.service.UpstreamID
	case service.upstream != nil:
		service.upstream.Acquire()
		r.Upstream = service.upstream
	}
	return err
}

// forStreams are those of a service's plugins that stream routes can have: the
// others are about HTTP, which no session of a stream route is to the gateway.
func (x *compiler) forStreams(confs []plan.Conf) []plan.Conf {
	return slices.DeleteFunc(confs, func(c plan.Conf) bool {
		_, is := x.allStreams[c.Plugin]
		return !is
	})
}

// compileStreamPlan is compilePlan for stream routes.
func (x *compiler) compileStreamPlan(confs []plan.Conf) (*plan.Stream, error) {
	if !x.config.Strict {
		confs = slices.DeleteFunc(slices.Clone(confs), func(c plan.Conf) bool {
			spec, here := x.allStreams[c.Plugin]
			_, enabled := x.streamSpecs[c.Plugin]
			return here && !enabled && !spec.Guard
		})
	}
	return plan.CompileStream(x.streamSpecs, confs, x.env)
}

// streamRefusal is refusal for a stream route: nil, or one that closes.
func (n *next) streamRefusal(doc *model.StreamRoute, created int64, err error) *StreamRoute {
	if doc.SuperiorID != "" || !errors.Is(err, upstream.ErrUnsupported) && !n.streamGuarded(doc) {
		return nil
	}
	r := newStreamRoute(doc, created)
	r.Fault = true
	return r
}

// streamGuarded says that a route names a guard, or a plugin that could be one.
func (n *next) streamGuarded(doc *model.StreamRoute) bool {
	confs := confsOf("", doc.Plugins)
	if e, ok := n.streamService(doc); ok && e != nil {
		confs = append(confs, n.forStreams(confsOf("", e.service.Plugins))...)
	}
	return slices.ContainsFunc(confs, func(c plan.Conf) bool {
		spec, known := n.allStreams[c.Plugin]
		return !known || spec.Guard
	})
}

// exposesStream is exposes for a stream route.
func (x *compiler) exposesStream(raw []byte, good model.Plugins) bool {
	return exposes(raw, good, func(name string) bool {
		spec, known := x.streamSpecs[name]
		return !known || spec.Guard
	})
}

// exposesSessions is exposes for a service as stream routes have it.
func (x *compiler) exposesSessions(e *serviceEntry) bool {
	return exposes(e.Raw, e.service.Plugins, func(name string) bool {
		return x.allStreams[name].Guard
	})
}

// checkStream compiles what stands in a stream route itself and closes it.
func (x *compiler) checkStream(doc *model.StreamRoute) error {
	if err := protocolFault(doc.Protocol); err != nil {
		return err
	}
	p, err := x.compileStreamPlan(sorted(confsOf("stream_routes/"+doc.ID, doc.Plugins)))
	if err != nil {
		return firstFault(err)
	}
	p.Release()
	u, err := x.compileInline(doc.Upstream, "", 0)
	if u != nil {
		u.Close()
	}
	return err
}

// checkStreamObject is check for a stream route.
func (x *compiler) checkStreamObject(o model.Object) error {
	doc, err := apisix.StreamRoute(o.ID, o.Raw)
	if err != nil {
		return err
	}
	return x.checkStream(doc)
}

// touchStreams has every stream route compiled again that names one of the
// plugins.
func (n *next) touchStreams(plugins []string) {
	names := naming(plugins)
	for id, e := range n.s.streams.All() {
		if names(e.Raw) || e.doc != nil && names(nil, e.doc.Plugins) || e.good != nil && names(nil, e.good.Plugins) || n.inService(e, names) {
			n.touchedStreams[id] = struct{}{}
		}
	}
}

// inService reports whether a service names one of the plugins that e asks for, or
// asked for in the form by which it runs on.
func (n *next) inService(e *streamEntry, names func([]byte, ...model.Plugins) bool) bool {
	return slices.ContainsFunc([]*model.StreamRoute{e.doc, e.good}, func(doc *model.StreamRoute) bool {
		if doc == nil || doc.ServiceID == "" {
			return false
		}
		s, ok := n.services.Get(doc.ServiceID)
		return ok && s.service != nil && names(nil, s.service.Plugins)
	})
}

// chooseStreams makes the plugins of stream routes those that s enables.
func (x *compiler) chooseStreams(s Selection) {
	x.streamSpecs = x.allStreams
	if s.StreamNames == nil {
		return
	}
	x.streamSpecs = plan.StreamSpecs{}
	for _, name := range s.StreamNames {
		if spec, here := x.allStreams[name]; here {
			x.streamSpecs[name] = spec
		}
	}
}

// streamsDiffer is differs for the plugins of stream routes.
func (x *compiler) streamsDiffer(y *compiler) []string {
	var names []string
	for name := range x.allStreams {
		_, is := x.streamSpecs[name]
		_, was := y.streamSpecs[name]
		if is != was || !bytes.Equal(x.env.Attr[name], y.env.Attr[name]) {
			names = append(names, name)
		}
	}
	return names
}

func newStreamSpecs(all []plugin.StreamSpec) plan.StreamSpecs {
	m := plan.StreamSpecs{}
	for _, s := range all {
		m[s.Name] = s
	}
	return m
}

// StreamPlugins are the plugins of stream routes that are enabled and that this
// build has.
func (s *Snapshot) StreamPlugins() []plugin.StreamSpec {
	var out []plugin.StreamSpec
	for _, p := range s.with.config.StreamPlugins {
		if _, enabled := s.with.streamSpecs[p.Name]; enabled {
			out = append(out, p)
		}
	}
	return out
}

// StreamUpstream is Upstream for a stream route; nil: there is none.
func (s *Snapshot) StreamUpstream(r *StreamRoute, id string) *Upstream {
	u, _ := s.Upstream(&Route{Upstream: r.Upstream, UpstreamID: r.UpstreamID}, id)
	return u
}

// own is the upstream that stands in the route itself; nil: none does.
func (e *streamEntry) own() *Upstream {
	if e.running == nil || e.good == nil || e.good.Upstream == nil {
		return nil
	}
	return e.running.Upstream
}
