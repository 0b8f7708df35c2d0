package snapshot

import (
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
	plan     *plan.Plan         // of its plugins alone, for routes that add none
	upstream *upstream.Upstream // its inline upstream
}

func (n *next) putService(o model.Object) {
	old, _ := n.services.Get(o.ID)
	e := &serviceEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.service, e.plan, e.upstream = old.service, old.plan, old.upstream
		if old.digest == e.digest {
			n.services.Set(o.ID, e)
			return
		}
	}
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	if err := n.compileService(e); err != nil {
		n.fault(o.Key, err)
	} else if old != nil {
		n.retireService(old)
	}
	n.services.Set(o.ID, e)
	n.touch(o.Key)
}

// compileService gives e the form of its document, or leaves it as it is.
func (a *Applier) compileService(e *serviceEntry) error {
	m, err := apisix.Service(e.ID, e.Raw)
	if err != nil {
		return err
	}
	if m.Script != "" {
		return errLua
	}
	p, err := a.compilePlan(confsOf("services/"+e.ID, m.Plugins))
	if err != nil {
		return err
	}
	u, err := a.compileInline(m.Upstream)
	if err != nil {
		p.Release()
		return err
	}
	e.service, e.plan, e.upstream = m, p, u
	return nil
}

func (a *Applier) compileInline(m *model.Upstream) (*upstream.Upstream, error) {
	if m == nil {
		return nil, nil
	}
	return upstream.Compile(m, a.config.Upstream)
}

func (n *next) removeService(k model.Key) {
	if e, ok := n.services.Get(k.ID); ok {
		n.retireService(e)
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
func (a *Applier) compilePlan(confs []plan.Conf) (*plan.Plan, error) {
	if len(confs) == 0 {
		a.empty.Acquire()
		return a.empty, nil
	}
	return plan.Compile(a.specs, confs, a.env)
}
