package snapshot

import (
	"errors"
	"slices"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/upstream"
)

// A serviceEntry is a stored service; service, plan and upstream are its last
// good form, nil if it never had one.
type serviceEntry struct {
	model.Object
	digest   apisix.Digest
	service  *model.Service
	plan     *plan.Plan // of its plugins alone, for routes that add none
	upstream *Upstream  // its inline upstream
	closed   bool       // what it is meant to be now has a guard that its last good form lacks, or cannot be here
}

func (n *next) putService(o model.Object) {
	old, _ := n.services.Get(o.ID)
	if old != nil && old.digest == apisix.WithoutTimes(o.Raw) && sameVerdict(old.Object, o) {
		e := *old
		e.Object = o
		n.services.Set(o.ID, &e)
		return
	}
	n.replaceService(old, o)
}

func (n *next) replaceService(old *serviceEntry, o model.Object) {
	e := &serviceEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.service, e.plan, e.upstream = old.service, old.plan, old.upstream
	}
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	err := o.Fault
	if err == nil {
		err = n.compileService(e)
	}
	if err != nil {
		n.fault(o.Key, err)
		e.closed = n.closesService(e, err)
	} else if old != nil {
		n.retireService(old)
	}
	n.users.move(o.Key, n.serviceReferences(old), n.serviceReferences(e))
	n.services.Set(o.ID, e)
	n.touch(o.Key)
}

// closesService says that the routes of a service that does not compile, because
// of cause, answer 503. Without a guard, one that never did is as one that is not
// there.
func (n *next) closesService(e *serviceEntry, cause error) bool {
	if e.service != nil {
		return n.exposes(e.Raw, e.service.Plugins)
	}
	return errors.Is(cause, upstream.ErrUnsupported) || n.exposes(e.Raw, nil)
}

func (n *next) serviceAgain(old *serviceEntry) error {
	e := *old
	n.compiled[e.Kind].Add(1)
	if err := n.buildService(&e, old.service); err != nil {
		return err
	}
	n.retireService(old)
	n.services.Set(e.ID, &e)
	n.touch(e.Key)
	return nil
}

func (n *next) serviceReferences(e *serviceEntry) func(func(model.Key) bool) {
	return func(yield func(model.Key) bool) {
		if e != nil && e.service != nil {
			n.ofPlugins(e.service.Plugins, yield)
		}
	}
}

// compileService gives e the form of its document, or leaves it as it is.
func (x *compiler) compileService(e *serviceEntry) error {
	m, err := apisix.Service(e.ID, e.Raw)
	if err != nil {
		return err
	}
	if m.Script != "" {
		return errLua
	}
	return x.buildService(e, m)
}

func (x *compiler) buildService(e *serviceEntry, m *model.Service) error {
	p, err := x.compilePlan(confsOf("services/"+e.ID, m.Plugins))
	if err != nil {
		return err
	}
	u, err := x.compileInline(m.Upstream, "services/"+e.ID, e.Created)
	if err != nil {
		p.Release()
		return err
	}
	e.service, e.plan, e.upstream = m, p, u
	return nil
}

func (x *compiler) compileInline(m *model.Upstream, owner string, created int64) (*Upstream, error) {
	if m == nil {
		return nil, nil
	}
	return x.newUpstream(m, owner, created)
}

func (n *next) removeService(k model.Key) {
	if e, ok := n.services.Get(k.ID); ok {
		n.retireService(e)
		n.users.move(k, n.serviceReferences(e), n.serviceReferences(nil))
	}
	n.services.Del(k.ID)
	n.touch(k)
}

func (n *next) retireService(e *serviceEntry) {
	if e.plan != nil {
		n.retire(e.plan.Release)
	}
	if e.upstream != nil {
		n.retire(e.upstream.Close)
	}
}

// confsOf are the plugins of one object.
func confsOf(owner string, plugins model.Plugins) []plan.Conf {
	confs := make([]plan.Conf, 0, len(plugins))
	for name, raw := range plugins {
		confs = append(confs, plan.Conf{Plugin: name, Owner: owner, Raw: raw})
	}
	return confs
}

// compilePlan compiles a set of plugins; the empty set has one shared plan.
func (x *compiler) compilePlan(confs []plan.Conf) (*plan.Plan, error) {
	if len(confs) == 0 {
		x.empty.Acquire()
		return x.empty, nil
	}
	if !x.config.Strict {
		confs = slices.DeleteFunc(slices.Clone(confs), x.leftOut)
	}
	return plan.Compile(x.specs, confs, x.env)
}
