package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
)

// A Selection is a choice of plugins and their settings.
type Selection struct {
	Names       []string // nil: all
	StreamNames []string // of plugins for streams; nil: all

	// Attr is plugin_attr of config.yaml, by plugin.
	Attr map[string]json.RawMessage
}

// Enabled says that a plugin may be configured, in a stream route if stream,
// whether or not this build has it.
func (s *Snapshot) Enabled(name string, stream bool) bool {
	list := s.with.enabled.Names
	if stream {
		list = s.with.enabled.StreamNames
	}
	return list == nil || slices.Contains(list, name)
}

// Plugins are the plugins that are enabled and that this build has.
func (s *Snapshot) Plugins() []plugin.Spec {
	var out []plugin.Spec
	for _, p := range s.with.config.Plugins {
		if _, enabled := s.with.specs[p.Name]; enabled {
			out = append(out, p)
		}
	}
	return out
}

// Enable replaces config.yaml's choice of plugins. A list in the store still
// takes the place of its names.
func (a *Applier) Enable(s Selection) {
	a.applying.Lock()
	defer a.applying.Unlock()
	prev := a.Current()
	a.compiler.config.Enabled = s
	n := a.begin(prev)
	n.choosePlugins()
	n.compileGlobal()
	n.compileRoutes()
	n.compileStreams()
	a.publish(prev, n.end(prev.Revision), n.retired)
}

// choose makes x the compiler of the plugins that s enables. What before has of
// their public APIs stays, unless they are set up anew.
func (x *compiler) choose(s Selection, before *compiler) {
	x.enabled, x.specs = s, x.all
	x.chooseStreams(s)
	if s.Names != nil {
		x.specs = plan.Specs{}
		for _, name := range s.Names {
			if spec, here := x.all[name]; here {
				x.specs[name] = spec
			}
		}
	}
	x.env.Specs, x.env.Attr = x.specs, s.Attr
	x.endpoints = map[string][]plugin.Endpoint{}
	for name, spec := range x.specs {
		made, had := before.endpoints[name]
		if !had || !bytes.Equal(before.env.Attr[name], s.Attr[name]) {
			e := x.env.Env
			e.Attr = s.Attr[name]
			made = spec.Endpoints(e)
		}
		x.endpoints[name] = made
	}
	x.env.Endpoint = endpointsOf(x.endpoints)
}

// endpointsOf finds a public API among those of all plugins. Of several at one
// place the first by the name of its plugin serves.
func endpointsOf(endpoints map[string][]plugin.Endpoint) func(method, path string) func(*plugin.Ctx) *plugin.Reply {
	var all []plugin.Endpoint
	for _, name := range slices.Sorted(maps.Keys(endpoints)) {
		all = append(all, endpoints[name]...)
	}
	return func(method, path string) func(*plugin.Ctx) *plugin.Reply {
		for _, e := range all {
			if e.Path == path && slices.Contains(e.Methods, method) {
				return e.Serve
			}
		}
		return nil
	}
}

// leftOut says that a plugin is not enabled and that the rest may run without
// it.
func (x *compiler) leftOut(c plan.Conf) bool {
	spec, here := x.all[c.Plugin]
	_, enabled := x.specs[c.Plugin]
	return here && !enabled && !spec.Guard
}

// putPlugins applies what a delta says of the list of plugins. It comes first:
// the list decides how everything else compiles.
func (n *next) putPlugins(d model.Delta) {
	key := model.Key{Kind: model.KindPlugins}
	for _, k := range d.Del {
		if k == key {
			n.clearFault(key)
			n.documents[model.KindPlugins].Del("")
			n.choosePlugins()
		}
	}
	for _, o := range d.Put {
		if o.Key != key {
			continue
		}
		if _, err := listed(o.Raw); err != nil && o.Fault == nil {
			o.Fault = err
		}
		documents := n.documents[o.Kind]
		old, had := documents.Get("")
		again := had && old.Created != o.Created // it was deleted in between
		if again {
			documents.Del("")
		}
		if n.putDocument(o) || again {
			n.choosePlugins()
		}
	}
}

// listed reads a list of plugins as the store has it.
func listed(raw []byte) (Selection, error) {
	var entries []struct {
		Name   string `json:"name"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		return Selection{}, fmt.Errorf("list of plugins: %w", err)
	}
	s := Selection{Names: []string{}, StreamNames: []string{}}
	for _, e := range entries {
		if e.Stream {
			s.StreamNames = append(s.StreamNames, e.Name)
		} else {
			s.Names = append(s.Names, e.Name)
		}
	}
	return s, nil
}

// choosePlugins makes the plugins those that are enabled now, and compiles again
// what names one that has come, gone or been set up anew.
func (n *next) choosePlugins() {
	s := n.Applier.compiler.config.Enabled
	if d, ok := n.documents[model.KindPlugins].Get(""); ok && d.used != nil {
		list, _ := listed(d.used) // it was read when it was taken
		s.Names, s.StreamNames = list.Names, list.StreamNames
	}
	before := n.s.with
	with := n.Applier.compiler
	with.choose(s, before)
	n.s.with = &with
	n.compiler = with
	n.compiler.env.Metadata, n.compiler.env.Proto = n.metadataOf(), n.protoOf()
	if changed := with.differs(before); len(changed) > 0 {
		n.chosen = true
		n.compileNaming(changed)
	}
	if changed := with.streamsDiffer(before); len(changed) > 0 {
		n.chosen = true
		n.touchStreams(changed)
	}
}

// differs lists the plugins that are not to x what they are to y.
func (x *compiler) differs(y *compiler) []string {
	var names []string
	endpoints := false
	for name := range x.all {
		_, is := x.specs[name]
		_, was := y.specs[name]
		if is == was && bytes.Equal(x.env.Attr[name], y.env.Attr[name]) {
			continue
		}
		names = append(names, name)
		endpoints = endpoints || len(x.endpoints[name])+len(y.endpoints[name]) > 0
	}
	if endpoints {
		names = append(names, "public-api") // which serves them
	}
	return names
}

// naming returns a function that says whether an object names one of the
// plugins, in its document or in a form that may run in its place.
func naming(plugins []string) func(raw []byte, forms ...model.Plugins) bool {
	quoted := make([][]byte, len(plugins))
	for i, name := range plugins {
		quoted[i] = []byte(`"` + name + `"`)
	}
	return func(raw []byte, forms ...model.Plugins) bool {
		for i, name := range plugins {
			if bytes.Contains(raw, quoted[i]) {
				return true
			}
			for _, form := range forms {
				if _, there := form[name]; there {
					return true
				}
			}
		}
		return false
	}
}

// compileNaming compiles every object again that names one of the plugins.
func (n *next) compileNaming(plugins []string) {
	names := naming(plugins)
	for _, k := range []model.Kind{model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule} {
		for _, e := range n.s.sets[k].All() {
			if names(e.Raw) || e.set != nil && names(nil, e.set.Plugins) {
				n.chooseSet(e)
			}
		}
	}
	for _, e := range n.s.services.All() {
		if names(e.Raw) || e.service != nil && names(nil, e.service.Plugins) {
			n.chooseService(e)
		}
	}
	for id, e := range n.s.records[model.KindConsumer].All() {
		if names(e.document()) {
			n.chooseRecord(model.Key{Kind: model.KindConsumer, ID: id}, e)
		}
	}
	if slices.Contains(plugins, stapling) {
		n.chooseSSLs()
	}
	for id, e := range n.s.routes.All() {
		if names(e.Raw) || e.doc != nil && names(nil, e.doc.Plugins) || e.good != nil && names(nil, e.good.Plugins) {
			n.touched[id] = struct{}{}
		}
	}
}

// broken says that the stored form of an object is not the running one.
func (n *next) broken(k model.Key) bool {
	_, yes := n.faults.Get(k.String())
	return yes
}

// chooseSet compiles a set for the plugins that are enabled now. If neither its
// document nor its last good form compiles, it has none any more.
func (n *next) chooseSet(old *setEntry) {
	n.replaceSet(old, old.Object)
	e, _ := n.sets[old.Kind].Get(old.ID)
	if !n.broken(e.Key) || e.set == nil || n.setAgain(e) == nil {
		return
	}
	gone := *e
	gone.set, gone.plan = nil, nil
	if e.plan != nil {
		n.retire(e.plan.Release)
	}
	n.users.move(e.Key, n.setReferences(e), n.setReferences(&gone))
	n.sets[e.Kind].Set(e.ID, &gone)
	n.setChanged(e.Key)
}

func (n *next) chooseService(old *serviceEntry) {
	n.replaceService(old, old.Object)
	e, _ := n.services.Get(old.ID)
	if !n.broken(e.Key) || e.service == nil || n.serviceAgain(e) == nil {
		return
	}
	gone := *e
	gone.service, gone.plan, gone.upstream = nil, nil, nil
	n.retireService(e)
	n.users.move(e.Key, n.serviceReferences(e), n.serviceReferences(&gone))
	n.services.Set(e.ID, &gone)
	n.touch(e.Key)
}

// chooseRecord compiles a consumer for the plugins that are enabled now. One
// that does not compile is nobody any more.
func (n *next) chooseRecord(k model.Key, old recordEntry) {
	before, broken := n.faults.Get(k.String())
	n.replaceRecord(old, old.object(), n.readRecord(k.Kind, k.ID, old.document()), false)
	if broken && !old.broken && !n.broken(k) {
		n.faults.Set(k.String(), before) // of a later document, which is not the running one
	}
}
