package snapshot

import (
	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
)

// A setEntry is a stored plugin config, consumer group or global rule; set is
// its last good form. plan is a group's, without authenticating plugins.
type setEntry struct {
	model.Object
	digest apisix.Digest
	set    *model.PluginSet
	plan   *plan.Plan
	closed bool // what it is meant to be now has a guard that its last good form lacks
}

func (n *next) putSet(o model.Object) {
	old, _ := n.sets[o.Kind].Get(o.ID)
	if old != nil && old.digest == apisix.WithoutTimes(o.Raw) && sameVerdict(old.Object, o) {
		e := *old
		e.Object = o
		n.sets[o.Kind].Set(o.ID, &e)
		return
	}
	n.replaceSet(old, o)
}

func (n *next) replaceSet(old *setEntry, o model.Object) {
	e := &setEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.set, e.plan = old.set, old.plan
	}
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	set, p, err := (*model.PluginSet)(nil), (*plan.Plan)(nil), o.Fault
	if err == nil {
		set, p, err = n.compileSet(o)
	}
	if err != nil {
		n.fault(o.Key, err)
		e.closed = e.set != nil && n.exposes(o.Raw, e.set.Plugins)
	} else {
		if e.plan != nil {
			n.retire(e.plan.Release)
		}
		e.set, e.plan = set, p
	}
	n.users.move(o.Key, n.setReferences(old), n.setReferences(e))
	n.sets[o.Kind].Set(o.ID, e)
	n.setChanged(o.Key)
}

// compileSet reads a set and makes sure that its plugins compile.
func (x *compiler) compileSet(o model.Object) (*model.PluginSet, *plan.Plan, error) {
	set, err := apisix.PluginSet(o.ID, o.Raw)
	if err != nil {
		return nil, nil, err
	}
	p, err := x.buildSet(o.Key, set)
	return set, p, err
}

func (x *compiler) buildSet(k model.Key, set *model.PluginSet) (*plan.Plan, error) {
	if k.Kind != model.KindConsumerGroup {
		return nil, x.checkParts(k.String(), set.Plugins, nil)
	}
	return x.compilePlan(x.withoutAuth(confsOf(k.String(), set.Plugins)))
}

func (n *next) setAgain(old *setEntry) error {
	e := *old
	n.compiled[e.Kind].Add(1)
	p, err := n.buildSet(e.Key, old.set)
	if err != nil {
		return err
	}
	if old.plan != nil {
		n.retire(old.plan.Release)
	}
	e.plan = p
	n.sets[e.Kind].Set(e.ID, &e)
	n.setChanged(e.Key)
	return nil
}

// setChanged passes a change on to what uses the set.
func (n *next) setChanged(k model.Key) {
	switch k.Kind {
	case model.KindGlobalRule:
		n.rules = true
	case model.KindPluginConfig:
		n.touch(k)
	}
}

func (n *next) setReferences(e *setEntry) func(func(model.Key) bool) {
	return func(yield func(model.Key) bool) {
		if e != nil && e.set != nil {
			n.ofPlugins(e.set.Plugins, yield)
		}
	}
}

func (n *next) removeSet(k model.Key) {
	old, _ := n.sets[k.Kind].Get(k.ID)
	if old != nil && old.plan != nil {
		n.retire(old.plan.Release)
	}
	n.users.move(k, n.setReferences(old), n.setReferences(nil))
	n.sets[k.Kind].Del(k.ID)
	n.setChanged(k)
}

// withoutAuth leaves out plugins that authenticate: a consumer's or group's are
// data, they do not run.
func (x *compiler) withoutAuth(confs []plan.Conf) []plan.Conf {
	kept := confs[:0]
	for _, c := range confs {
		if !x.authenticates(c.Plugin) {
			kept = append(kept, c)
		}
	}
	return kept
}

func (x *compiler) authenticates(plugin string) bool {
	spec, known := x.all[plugin]
	return known && spec.Type == "auth"
}

// compileGlobal compiles the plugins of all global rules as one plan, if one of
// them has changed. A plugin that stands in several rules runs in none
// (apisix-runtime.md §2). A rule that was never good and may guard something
// closes the gateway rather than opening it.
func (n *next) compileGlobal() {
	if !n.rules {
		return
	}
	rules := n.sets[model.KindGlobalRule].Map()
	owners := map[string]string{}
	var confs []plan.Conf
	closed := false
	for id, e := range rules.All() {
		closed = closed || e.closed
		if e.set == nil {
			closed = closed || n.mayGuard(e.Object)
			continue
		}
		confs = append(confs, confsOf("global_rules/"+id, e.set.Plugins)...)
	}
	for _, c := range confs {
		if owners[c.Plugin] != "" {
			n.config.Log.Error("plugin is configured in several global rules and runs in none", "plugin", c.Plugin)
		}
		owners[c.Plugin] += c.Owner
	}
	single := confs[:0]
	for _, c := range confs {
		if owners[c.Plugin] == c.Owner {
			single = append(single, c)
		}
	}
	if n.s.global != nil {
		n.retire(n.s.global.Release)
	}
	n.s.global, n.s.closed = nil, closed
	if len(single) == 0 {
		return
	}
	p, err := n.compilePlan(single)
	if err != nil {
		// Each rule compiles by itself, so that this cannot be its fault.
		n.config.Log.Error("global rules do not compile together", "err", err)
		n.s.closed = true
		return
	}
	n.s.global = p
}

// mayGuard says that a rule that does not compile names a guard, or a plugin
// that could be one, or cannot be read at all.
func (n *next) mayGuard(o model.Object) bool {
	set, err := apisix.PluginSet(o.ID, o.Raw)
	return err != nil || n.guards(confsOf("", set.Plugins))
}
