package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/cert"
	"weir/internal/dialect/apicast"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Products is what an Applier needs to serve 3scale products.
type Products struct {
	Policies []plugin.Spec // of this build
	Runtime  *threescale.Runtime

	// Ahead are plugins of Policies that run in every product, before its chain;
	// Metadata are theirs, by name.
	Ahead    []plan.Conf
	Metadata map[string]json.RawMessage

	// Choose returns the id of the product of a request; nil: hosts and mapping
	// rules say it.
	Choose func(*plugin.Ctx) string
}

// A productEntry is a delivered product. running is its last good form, or one
// that refuses; nil: it never could be read.
type productEntry struct {
	model.Object
	good    *model.Product // what running was made of; nil: it refuses
	running *Route
	hosts   []string // under which it is found
}

// A host is what is served under one name.
type host struct {
	all   []*productEntry // in the order of the document
	paths *pathIndex      // where paths choose among them
}

// MatchProduct finds the product of a request, or nil (apicast.md §2.5).
func (s *Snapshot) MatchProduct(c *plugin.Ctx) *Route {
	if choose := s.with.config.Products.Choose; choose != nil {
		e, ok := s.products.Get(choose(c))
		if !ok {
			return nil
		}
		return e.running
	}
	at, ok := s.hosts.Get(hostOf(c.Request.Host))
	if !ok {
		return nil
	}
	settings := &s.with.config.Products.Runtime.Settings
	if settings.PathRouting || settings.PathRoutingOnly {
		if e := at.byPath(c); e != nil {
			return e.running
		}
		if settings.PathRoutingOnly {
			return nil
		}
	}
	return at.all[0].running
}

// Handshake is for clients that ask for the name, if its product has one of its
// own; nil: it has the gateway's. Where the path chooses among products, their
// names have no handshakes of their own: there is no path yet (apicast.md §2.5).
func (s *Snapshot) Handshake(name string) *cert.Certificate {
	products := &s.with.config.Products
	if products.Runtime == nil || products.Runtime.PathRouting || products.Runtime.PathRoutingOnly {
		return nil
	}
	at, ok := s.hosts.Get(hostOf(name))
	if !ok || at.all[0].running == nil {
		return nil
	}
	return at.all[0].running.Handshake
}

// Serves says whether a host, lower case and without a port, has a product.
func (s *Snapshot) Serves(host string) bool {
	_, ok := s.hosts.Get(host)
	return ok
}

// hostOf is the name that products are found by.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func (n *next) putProduct(o model.Object) {
	old, _ := n.products.Get(o.ID)
	if old != nil && bytes.Equal(old.Raw, o.Raw) && sameVerdict(old.Object, o) {
		if old.Created == o.Created {
			return
		}
		e := *old
		e.Object = o
		n.setProduct(old, &e)
		return
	}
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	e := &productEntry{Object: o}
	doc, err := (*model.Product)(nil), o.Fault
	if err == nil {
		doc, err = apicast.Decode(o.Raw)
	}
	if err == nil {
		e.hosts = doc.Hosts
		e.running, err = n.compileProduct(o, doc)
		e.good = doc
	}
	if err != nil {
		n.fault(o.Key, err)
	}
	if err != nil && e.running == nil {
		n.lastGoodProduct(e, old, doc)
	}
	if old != nil && old.running != nil && old.running != e.running {
		n.retireProduct(old.running)
	}
	n.setProduct(old, e)
}

// lastGoodProduct has a product that does not compile stay what it was, unless
// that lacks a guard that it names now; else it refuses every request. doc is nil
// if it cannot be read.
func (n *next) lastGoodProduct(e, old *productEntry, doc *model.Product) {
	if old != nil && old.good != nil && !n.exposesProduct(doc, old.good) {
		e.good, e.running, e.hosts = old.good, old.running, old.hosts
		return
	}
	e.good = nil
	e.running = &Route{Route: plugin.Route{ID: e.ID, ServiceID: e.ID}, Fault: 503}
	switch {
	case doc != nil:
		e.hosts = doc.Hosts
	case old != nil:
		e.hosts = old.hosts
	default:
		e.hosts = apicast.Hosts(e.Raw)
	}
}

// exposesProduct says that doc names a guard, or what could be one, that good
// does not have.
func (n *next) exposesProduct(doc, good *model.Product) bool {
	return doc == nil || slices.ContainsFunc(doc.Chain, func(p model.Policy) bool {
		return n.guardsPolicy(p) && !slices.ContainsFunc(good.Chain, func(q model.Policy) bool { return q.Name == p.Name })
	})
}

func (x *compiler) guardsPolicy(p model.Policy) bool {
	spec, known := x.policies[p.Name]
	return !known || p.Version != apicast.Builtin || spec.Guard
}

// compileProduct compiles a product and its chain. A product runs without a
// policy that does not work, and err says so, unless that is a guard.
func (n *next) compileProduct(o model.Object, doc *model.Product) (*Route, error) {
	env := n.env
	env.Specs, env.Open, env.Attr = n.policies, nil, nil
	env.Metadata = func(name string) json.RawMessage { return n.config.Products.Metadata[name] }
	p, err := threescale.NewProduct(doc, n.config.Products.Runtime, env.Env)
	if err != nil {
		return nil, err
	}
	env.Product = p
	confs, err := n.confsOfChain(o.Key, doc)
	compiled, more := n.compileChain(confs, env)
	if err = errors.Join(err, more); err != nil {
		p.Broken = true
		if compiled == nil || !answersFailures(confs) && n.closes(err) {
			if compiled != nil {
				compiled.Release()
			}
			p.Close()
			return nil, err
		}
	}
	n.warnOfOrder(o.Key, doc)
	r := &Route{
		Route:   plugin.Route{ID: o.ID, Name: doc.SystemName, ServiceID: o.ID, ServiceName: doc.SystemName},
		Plan:    compiled,
		Product: p,
	}
	if c := p.HandshakeConfig(); c != nil {
		r.Handshake = &cert.Certificate{ID: o.ID, Hosts: doc.Hosts, Config: c}
	}
	return r, err
}

// confsOfChain is the chain without the policies that are not there; err joins a
// fault for each of those.
func (n *next) confsOfChain(k model.Key, doc *model.Product) (confs []plan.Conf, err error) {
	for _, conf := range n.config.Products.Ahead {
		conf.Owner = k.String()
		confs = append(confs, conf)
	}
	for _, p := range doc.Chain {
		conf := plan.Conf{Plugin: p.Name, Owner: k.String(), Raw: p.Configuration}
		if _, known := n.policies[p.Name]; !known || p.Version != apicast.Builtin {
			err = errors.Join(err, &unknownPolicy{p.Name, p.Version})
			continue
		}
		confs = append(confs, conf)
	}
	return confs, err
}

type unknownPolicy struct{ name, version string }

func (e *unknownPolicy) Error() string {
	return fmt.Sprintf("there is no policy %q of version %q", e.name, e.version)
}

// compileChain compiles what of a chain does; err joins the faults of the rest.
func (n *next) compileChain(confs []plan.Conf, env plan.Env) (p *plan.Plan, err error) {
	for {
		p, more := plan.Compile(n.policies, confs, env)
		if more == nil {
			return p, err
		}
		bad := faultsIn(more)
		err = errors.Join(err, more)
		left := slices.DeleteFunc(slices.Clone(confs), func(c plan.Conf) bool {
			return slices.ContainsFunc(bad, func(f *plan.Fault) bool {
				return f.Plugin == c.Plugin && bytes.Equal(f.Raw, c.Raw)
			})
		})
		if len(left) == len(confs) {
			return nil, err
		}
		confs = left
	}
}

// faultsIn are the faults of plan.Compile's error.
func faultsIn(err error) (faults []*plan.Fault) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			faults = append(faults, faultsIn(e)...)
		}
		return faults
	}
	var f *plan.Fault
	if errors.As(err, &f) {
		faults = append(faults, f)
	}
	return faults
}

// closes says that one of the policies that do not work is a guard, or could be.
func (n *next) closes(err error) bool {
	var unknown *unknownPolicy
	return errors.As(err, &unknown) || slices.ContainsFunc(faultsIn(err), func(f *plan.Fault) bool {
		return f.Unknown || n.policies[f.Plugin].Guard
	})
}

// answersFailures says that a chain has a policy that answers every request of a
// chain in which something does not work.
func answersFailures(confs []plan.Conf) bool {
	return slices.ContainsFunc(confs, func(c plan.Conf) bool { return c.Plugin == "on_failed" })
}

// warnOfOrder logs policies that should stand before others (APIcast's words).
func (n *next) warnOfOrder(k model.Key, doc *model.Product) {
	for i, p := range doc.Chain {
		for _, earlier := range doc.Chain[:i] {
			if slices.Contains(n.policies[p.Name].Before, earlier.Name) {
				n.config.Log.Warn(fmt.Sprintf("%s (version: %s) should be placed before %s (version: %s)",
					p.Name, p.Version, earlier.Name, earlier.Version), "object", k.String())
			}
		}
	}
}

func (n *next) removeProduct(id string) {
	old, ok := n.products.Get(id)
	if !ok {
		return
	}
	if old.running != nil {
		n.retireProduct(old.running)
	}
	n.leaveHosts(old)
	n.products.Del(id)
}

func (n *next) retireProduct(r *Route) {
	if r.Plan != nil {
		n.retire(r.Plan.Release)
	}
	if r.Product != nil {
		n.retire(r.Product.Close)
	}
}

func (n *next) setProduct(old, e *productEntry) {
	before := make([]host, len(e.hosts))
	for i, name := range e.hosts {
		before[i], _ = n.hosts.Get(name)
	}
	if old != nil {
		n.leaveHosts(old)
	}
	for i, name := range e.hosts {
		at, _ := n.hosts.Get(name)
		place, _ := slices.BinarySearchFunc(at.all, e, byPlace)
		all := slices.Insert(slices.Clone(at.all), place, e)
		n.setHost(name, all)
		n.warnOfHost(name, before[i].all, all, e)
	}
	n.products.Set(e.ID, e)
}

// warnOfHost logs that a host does not lead to a product that has it, because one
// that stands before has it, too (APIcast's words), if that is new. Where paths
// choose among the products of a host, or routes choose them, it means nothing.
func (n *next) warnOfHost(name string, before, at []*productEntry, e *productEntry) {
	p := &n.config.Products
	if p.Choose != nil || p.Runtime.PathRouting || p.Runtime.PathRoutingOnly {
		return
	}
	skipped, first := e.ID, at[0].ID
	switch was := slices.IndexFunc(before, func(x *productEntry) bool { return x.ID == e.ID }); {
	case first != e.ID && was <= 0:
	case first == e.ID && was != 0 && len(before) > 0:
		skipped = before[0].ID
	default:
		return
	}
	n.config.Log.Warn(fmt.Sprintf("skipping host %s for service %s already defined by service %s", name, skipped, first))
}

func (n *next) leaveHosts(e *productEntry) {
	for _, name := range e.hosts {
		at, _ := n.hosts.Get(name)
		left := slices.DeleteFunc(slices.Clone(at.all), func(x *productEntry) bool { return x.ID == e.ID })
		if len(left) == 0 {
			n.hosts.Del(name)
			continue
		}
		n.setHost(name, left)
	}
}

// setHost says what is served under a name; where paths choose, their index is made at
// the end of the step.
func (n *next) setHost(name string, all []*productEntry) {
	n.hosts.Set(name, host{all: all})
	if r := n.config.Products.Runtime; r.PathRouting || r.PathRoutingOnly {
		if n.touchedHosts == nil {
			n.touchedHosts = map[string]struct{}{}
		}
		n.touchedHosts[name] = struct{}{}
	}
}

func byPlace(a, b *productEntry) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
}

// ApplyProducts is Apply for a source of products, beside that of everything
// else: the revision stays that one's.
func (a *Applier) ApplyProducts(d model.Delta) { a.apply(d, true) }
