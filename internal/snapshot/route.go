package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/dialect/apisix"
	"weir/internal/expr"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/router"
	"weir/internal/upstream"
)

// A routeEntry is a stored route. doc is its last document that could be read,
// good the last one that compiled, running what the router holds; each may be nil.
type routeEntry struct {
	model.Object
	digest    apisix.Digest
	doc, good *model.Route
	running   *router.Route[*Route]
}

// errLua: a document may ask for it and this version does not have it.
var errLua = fmt.Errorf("filter_func and script (Lua): %w", upstream.ErrUnsupported)

func (n *next) putRoute(o model.Object) {
	old, _ := n.routes.Get(o.ID)
	e := &routeEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.doc, e.good, e.running = old.doc, old.good, old.running
		if old.digest == e.digest && sameVerdict(old.Object, o) {
			n.routes.Set(o.ID, e)
			return
		}
	}
	n.clearFault(o.Key)
	doc, err := apisix.Route(o.ID, o.Raw)
	if err != nil {
		doc = apisix.RouteOutline(o.ID, o.Raw)
		e.Fault = cmp.Or(e.Fault, err)
	}
	if doc != nil {
		e.doc = doc
	}
	if e.doc != nil {
		n.touched[o.ID] = struct{}{}
	} else {
		n.compiled[o.Kind].Add(1)
		n.fault(o.Key, e.Fault)
	}
	n.set(old, e)
}

// set stores a route's entry and moves its references. Both its document and
// its last good one count: either may be what runs.
func (n *next) set(old, new *routeEntry) {
	n.users.move(new.Key, n.routeReferences(old), n.routeReferences(new))
	n.routes.Set(new.ID, new)
}

func (n *next) routeReferences(e *routeEntry) func(func(model.Key) bool) {
	return func(yield func(model.Key) bool) {
		if e == nil {
			return
		}
		for _, doc := range []*model.Route{e.doc, e.good} {
			if doc != nil && (!yield(model.Key{Kind: model.KindService, ID: doc.ServiceID}) ||
				!yield(model.Key{Kind: model.KindPluginConfig, ID: doc.PluginConfigID}) ||
				!n.ofPlugins(doc.Plugins, yield)) {
				return
			}
		}
	}
}

func (n *next) removeRoute(id string) {
	e, ok := n.routes.Get(id)
	if !ok {
		return
	}
	n.users.move(e.Key, n.routeReferences(e), n.routeReferences(nil))
	n.replace(e.running, nil)
	n.routes.Del(id)
	delete(n.touched, id)
}

// compileRoutes compiles every touched route.
func (n *next) compileRoutes() {
	for id := range n.touched {
		if e, ok := n.routes.Get(id); ok && e.doc != nil {
			n.set(e, n.compileEntry(e))
		}
	}
}

// compileEntry gives a route its new form: that of its document, else of its
// last good one, else one that refuses.
func (n *next) compileEntry(e *routeEntry) *routeEntry {
	n.compiled[model.KindRoute].Add(1)
	n.clearFault(e.Key)
	f := *e
	r, err := (*router.Route[*Route])(nil), e.Fault
	if err == nil {
		r, err = n.compileRoute(e.doc)
	}
	if err == nil {
		f.good = e.doc
	} else {
		n.fault(e.Key, err)
		if r, err = n.lastGood(e, err); err != nil {
			return &f
		}
	}
	if r != nil {
		r.Created = e.Created
	}
	f.running = r
	n.replace(e.running, f.running)
	return &f
}

// lastGood is what a route is that does not compile, because of cause: what it
// was when it last did, else one that refuses. An error says that it stays what
// it is.
func (n *next) lastGood(e *routeEntry, cause error) (*router.Route[*Route], error) {
	if e.good == nil || n.exposes(e.Raw, e.good.Plugins) {
		return n.refusal(e.doc, cause), nil
	}
	r, err := n.compileRoute(e.good)
	switch {
	case err == nil || !n.chosen:
		return r, err
	case n.guarded(e.good):
		return n.refusal(e.good, err), nil
	}
	return n.refusal(e.doc, err), nil
}

// replace changes the router and retires what the old route used.
func (n *next) replace(old, new *router.Route[*Route]) {
	n.router.Put(old, new)
	if old == nil {
		return
	}
	if p := old.Value.Plan; p != nil {
		n.retire(p.Release)
	}
	if u := old.Value.Upstream; u != nil {
		n.retire(u.Close)
	}
}

// compileRoute compiles a route with its service and plugin config. It fails
// only for what the document itself says; a disabled route compiles to nil.
func (n *next) compileRoute(doc *model.Route) (*router.Route[*Route], error) {
	match, err := predicate(doc)
	if err != nil {
		return nil, err
	}
	r, err := n.compileParts(doc)
	if r != nil {
		r.Match = match
	}
	return r, err
}

func (n *next) compileParts(doc *model.Route) (*router.Route[*Route], error) {
	service, ok := n.serviceOf(doc)
	if err := n.narrow(doc, hostsOf(doc, service)); err != nil {
		return nil, err
	}
	switch {
	case service != nil && service.closed && !doc.Disabled:
		return n.idle(doc, nil, 503)
	case doc.Disabled, !ok:
		return n.idle(doc, nil, 404)
	}
	confs, ok := n.merge(doc, service)
	if !ok {
		return n.idle(doc, service, 503)
	}
	r := &Route{Timeout: doc.Timeout, UpstreamID: doc.UpstreamID}
	var err error
	if len(confs) == 0 && service != nil {
		service.plan.Acquire()
		r.Plan = service.plan
	} else if r.Plan, err = n.compilePlan(confs); err != nil {
		return nil, err
	}
	if r.Upstream, err = n.inline(doc, service); err != nil {
		r.Plan.Release()
		return nil, err
	}
	return n.entry(doc, service, r), nil
}

// serviceOf returns the route's service, nil if it names none; ok is false if
// the one it names is not there, or there and never compiled.
func (n *next) serviceOf(doc *model.Route) (service *serviceEntry, ok bool) {
	if doc.ServiceID == "" {
		return nil, true
	}
	service, ok = n.services.Get(doc.ServiceID)
	return service, ok && service.service != nil
}

// idle compiles a route that answers fault, or nothing if it is disabled: its
// own plugins and upstream are compiled all the same, to know whether they do.
func (n *next) idle(doc *model.Route, service *serviceEntry, fault int) (*router.Route[*Route], error) {
	if err := n.checkParts("routes/"+doc.ID, doc.Plugins, doc.Upstream); err != nil || doc.Disabled {
		return nil, err
	}
	return n.entry(doc, service, &Route{Fault: fault}), nil
}

// merge is the plugins of a route: its own, then those of its plugin config,
// then of its service, where none of that name is there yet (apisix-runtime.md
// §3). No conf at all means that the service's own plan serves.
func (n *next) merge(doc *model.Route, service *serviceEntry) (confs []plan.Conf, ok bool) {
	confs = confsOf("routes/"+doc.ID, doc.Plugins)
	if doc.PluginConfigID != "" {
		e, ok := n.sets[model.KindPluginConfig].Get(doc.PluginConfigID)
		if !ok || e.set == nil || e.closed {
			return nil, false
		}
		confs = addMissing(confs, confsOf("plugin_configs/"+e.ID, e.set.Plugins))
	}
	if len(confs) > 0 && service != nil {
		confs = addMissing(confs, confsOf("services/"+service.ID, service.service.Plugins))
	}
	return confs, true
}

func addMissing(confs, more []plan.Conf) []plan.Conf {
	have := len(confs)
	for _, c := range more {
		if !slices.ContainsFunc(confs[:have], func(x plan.Conf) bool { return x.Plugin == c.Plugin }) {
			confs = append(confs, c)
		}
	}
	return confs
}

// inline is the upstream that the route carries itself, or its service does.
func (n *next) inline(doc *model.Route, service *serviceEntry) (*Upstream, error) {
	if doc.UpstreamID != "" {
		return nil, nil
	}
	if doc.Upstream != nil {
		e, _ := n.routes.Get(doc.ID)
		return n.compileInline(doc.Upstream, "routes/"+doc.ID, e.Created)
	}
	if service == nil || service.upstream == nil || service.service.UpstreamID != "" {
		return nil, nil
	}
	service.upstream.Acquire()
	return service.upstream, nil
}

// entry is what the router holds of a route.
func (n *next) entry(doc *model.Route, service *serviceEntry, r *Route) *router.Route[*Route] {
	r.Route = plugin.Route{ID: doc.ID, Name: doc.Name, ServiceID: doc.ServiceID, Labels: doc.Labels}
	websocket := doc.Websocket
	if service != nil {
		s := service.service
		r.ServiceName = s.Name
		if r.UpstreamID == "" && doc.Upstream == nil {
			r.UpstreamID = s.UpstreamID
		}
		if websocket == nil {
			websocket = s.Websocket
		}
		r.Labels = orElse(r.Labels, s.Labels)
	}
	r.Websocket = websocket != nil && *websocket
	return &router.Route[*Route]{
		ID:       doc.ID,
		Paths:    doc.Paths,
		Hosts:    hostsOf(doc, service),
		Methods:  doc.Methods,
		Priority: doc.Priority,
		Value:    r,
	}
}

// hostsOf are a route's hosts: its own, or those of its service.
func hostsOf(doc *model.Route, service *serviceEntry) []string {
	if len(doc.Hosts) == 0 && service != nil && service.service != nil {
		return service.service.Hosts
	}
	return doc.Hosts
}

// mostPlaces bounds what one document can make the router hold: hosts are multiplied
// by paths.
const mostPlaces = 1 << 18

// narrow fails for a route with more places than that.
func (x *compiler) narrow(doc *model.Route, hosts []string) error {
	if n := x.config.Router.Places(len(hosts), len(doc.Paths)); n > mostPlaces {
		return fmt.Errorf("%d hosts with %d uris are %d places, more than the %d that a route may have", len(hosts), len(doc.Paths), n, mostPlaces)
	}
	return nil
}

func orElse(m, other map[string]string) map[string]string {
	if m == nil {
		return other
	}
	return m
}

// predicate is what a request must fulfil besides host, path and method; nil:
// nothing. Where vars have no value the route does not match.
func predicate(doc *model.Route) (func(*plugin.Ctx) bool, error) {
	if doc.FilterFunc != "" || doc.Script != "" {
		return nil, errLua
	}
	from := remoteAddrs(doc.RemoteAddrs)
	if doc.Vars == nil {
		return from, nil
	}
	vars, err := expr.Compile(doc.Vars)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to validate the 'vars' expression: %w", err)
	case vars.Always():
		return from, nil
	}
	return func(c *plugin.Ctx) bool {
		if from != nil && !from(c) {
			return false
		}
		ok, err := vars.Match(c)
		return ok && err == nil
	}, nil
}

// remoteAddrs is the predicate of a route's remote_addrs; nil: there is none.
func remoteAddrs(nets []netip.Prefix) func(*plugin.Ctx) bool {
	if len(nets) == 0 {
		return nil
	}
	return func(c *plugin.Ctx) bool {
		addr, err := netip.ParseAddr(c.Client)
		return err == nil && slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
}

// refusal is what stands in for a route that does not compile and never did. A
// route that may have been meant to guard something, or that asks for what this
// build does not have, answers 503; any other does not match (DECISIONS 1).
func (n *next) refusal(doc *model.Route, err error) *router.Route[*Route] {
	if !errors.Is(err, upstream.ErrUnsupported) && !n.guarded(doc) {
		return nil
	}
	if doc.Disabled {
		return nil
	}
	service, ok := n.serviceOf(doc)
	if !ok {
		service = nil
	}
	if n.narrow(doc, hostsOf(doc, service)) != nil {
		return nil // as if it were not there: there is no room for it
	}
	r := n.entry(doc, service, &Route{Fault: 503})
	if r.Match, err = predicate(doc); err != nil {
		r.Match = remoteAddrs(doc.RemoteAddrs)
	}
	return r
}

// guarded says that a route names a guard, or a plugin that could be one.
func (n *next) guarded(doc *model.Route) bool {
	confs := confsOf("", doc.Plugins)
	if e, ok := n.serviceOf(doc); ok && e != nil {
		confs = append(confs, confsOf("", e.service.Plugins)...)
	}
	if e, ok := n.sets[model.KindPluginConfig].Get(doc.PluginConfigID); ok && e.set != nil {
		confs = append(confs, confsOf("", e.set.Plugins)...)
	}
	return n.guards(confs)
}

// exposes says that a document which does not compile names a guard, or a plugin
// that could be one, that its last good form does not have: to let that one run
// on would leave open what is meant to be guarded now.
func (x *compiler) exposes(raw []byte, good model.Plugins) bool {
	return exposes(raw, good, func(name string) bool {
		spec, known := x.specs[name]
		return !known || spec.Guard
	})
}

func exposes(raw []byte, good model.Plugins, guard func(name string) bool) bool {
	names, readable := apisix.NamedPlugins(raw)
	return !readable || slices.ContainsFunc(names, func(name string) bool {
		return guard(name) && !enabledIn(good, name)
	})
}

// enabledIn says that a plugin is among those configured and not disabled.
func enabledIn(plugins model.Plugins, name string) bool {
	raw, has := plugins[name]
	var conf struct {
		Meta struct {
			Disable bool `json:"disable"`
		} `json:"_meta"`
	}
	return has && (json.Unmarshal(raw, &conf) != nil || !conf.Meta.Disable)
}

// guards says that one of the plugins is a guard, or could be one.
func (x *compiler) guards(confs []plan.Conf) bool {
	return slices.ContainsFunc(confs, func(c plan.Conf) bool {
		spec, known := x.all[c.Plugin]
		return !known || spec.Guard
	})
}
