package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"weir/internal/cow"
	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
)

// A record is a stored consumer or credential. It is data: what a request needs
// of it is decoded when a request first does, and kept with it. There may be a
// million, so what few have lies elsewhere.
type record struct {
	decoded    atomic.Pointer[decoded]
	text       string // the id ("jack", or "jack/credentials/c1"), then the document
	created    int64
	more       *more  // nil: nothing
	idLen      uint32 // of text
	credential bool   // it is one, of the consumer that its id begins with
	broken     bool   // some of it cannot be read, and no earlier version could
}

// more is what not every record has.
type more struct {
	plan  *plan.Plan              // of a consumer's plugins that do not authenticate; nil: none
	fault error                   // of its source
	room  atomic.Pointer[decoded] // for the first form; nil: it has none, or it is in use
}

// decoded is a record as one plugin sees it; several make a list.
type decoded struct {
	plugin   string
	parent   *record // whose consumer this is
	next     *decoded
	consumer plugin.Consumer
}

// newRecord makes the record of a consumer or credential with the plan p. Those
// that have one are not idle: their first form lies with them.
func newRecord(o *model.Object, p *plan.Plan) *record {
	r := new(record)
	switch {
	case p != nil:
		all := new(struct {
			record
			more
			form decoded
		})
		r, all.record.more = &all.record, &all.more
		r.more.room.Store(&all.form)
	case o.Fault != nil:
		r.more = new(more)
	}
	if r.more != nil {
		r.more.plan, r.more.fault = p, o.Fault
	}
	text := append(append(make([]byte, 0, len(o.ID)+len(o.Raw)), o.ID...), o.Raw...)
	r.text, r.idLen, r.created = unsafe.String(unsafe.SliceData(text), len(text)), uint32(len(o.ID)), o.Created
	r.credential = o.Kind == model.KindCredential
	return r
}

func (r *record) id() string { return r.text[:r.idLen] }

// document is the stored text; it is never changed.
func (r *record) document() []byte {
	text := r.text[r.idLen:]
	return unsafe.Slice(unsafe.StringData(text), len(text))
}

// within returns text as a part of the record's if it stands there: it then takes no
// memory of its own.
func (r *record) within(text string) string {
	if i := strings.Index(r.text, text); i >= 0 {
		return r.text[i : i+len(text)]
	}
	return text
}

func (r *record) plan() *plan.Plan {
	if r == nil || r.more == nil {
		return nil
	}
	return r.more.plan
}

func (r *record) fault() error {
	if r.more == nil {
		return nil
	}
	return r.more.fault
}

// name is the consumer's.
func (r *record) name() string {
	name, _, _ := strings.Cut(r.id(), "/")
	return name
}

func (r *record) kind() model.Kind {
	if r.credential {
		return model.KindCredential
	}
	return model.KindConsumer
}

// Find implements plugin.ConsumerIndex.
func (s *Snapshot) Find(plugin, key string) *plugin.Consumer {
	m := s.index[plugin]
	if m == nil {
		return nil
	}
	r, ok := m.Get(key)
	if !ok {
		return nil
	}
	return s.consumer(r, plugin)
}

// Named implements plugin.ConsumerIndex.
func (s *Snapshot) Named(name string) *plugin.Consumer {
	r, ok := s.records[model.KindConsumer].Get(name)
	if !ok {
		return nil
	}
	return s.consumer(r.record, "")
}

// consumer is r as the plugin sees it, or nil if its consumer is gone or cannot
// be read.
func (s *Snapshot) consumer(r *record, plugin string) *plugin.Consumer {
	parent := r
	if r.credential {
		e, ok := s.records[model.KindConsumer].Get(r.name())
		if !ok {
			return nil
		}
		parent = e.record
	}
	for d := r.decoded.Load(); d != nil; d = d.next {
		if d.plugin == plugin && d.parent == parent {
			return &d.consumer
		}
	}
	return s.decode(r, parent, plugin)
}

// decode makes and keeps r's form for the plugin.
func (s *Snapshot) decode(r, parent *record, plugin string) *plugin.Consumer {
	m, err := apisix.Consumer(parent.id(), parent.document())
	if err != nil {
		return nil
	}
	if parent.broken && s.with.runs(m.Plugins) {
		return nil // they would have to run and do not
	}
	d := r.form()
	d.plugin, d.parent = plugin, parent
	d.consumer.Name, d.consumer.GroupID, d.consumer.Labels = m.Username, m.GroupID, m.Labels
	d.consumer.CustomID = m.Labels["custom_id"]
	if p := parent.plan(); p != nil {
		d.consumer.Plan = p
	}
	plugins := m.Plugins
	if r != parent {
		c, err := apisix.Credential(r.id(), r.document())
		if err != nil {
			return nil
		}
		d.consumer.CredentialID, plugins = c.ID, c.Plugins
	}
	if plugin != "" {
		spec := s.with.all[plugin]
		if _, d.consumer.Credential, err = spec.DecodeCredential(s.with.config.Open(spec.Spec, plugins[plugin], true)); err != nil {
			return nil
		}
	}
	for {
		first := r.decoded.Load()
		// Forms made for a parent that is gone are left behind.
		d.next = nil
		if first != nil && first.parent == parent {
			d.next = first
		}
		if r.decoded.CompareAndSwap(first, d) {
			return &d.consumer
		}
	}
}

// form is empty memory for a form.
func (r *record) form() *decoded {
	if r.more != nil {
		if d := r.more.room.Swap(nil); d != nil {
			return d
		}
	}
	return new(decoded)
}

// A recordEntry is a record at the revision it was last written, perhaps with
// the same content.
type recordEntry struct {
	*record
	modified int64
}

func (e recordEntry) object() model.Object {
	return model.Object{
		Key: model.Key{Kind: e.kind(), ID: e.id()}, Created: e.created, Modified: e.modified, Raw: e.document(), Fault: e.fault(),
	}
}

// putRecord takes a consumer or credential; said is what has been read of it, nil:
// nothing yet.
func (n *next) putRecord(o model.Object, said *reading) {
	records := &n.records[o.Kind]
	old, had := records.Get(o.ID)
	if had && old.created != o.Created {
		n.remove(o.Key) // as in put
		old, had = recordEntry{}, false
	}
	if had && apisix.WithoutTimes(old.document()) == apisix.WithoutTimes(o.Raw) {
		if !old.broken {
			n.clearFault(o.Key) // of a version in between
		}
		records.Set(old.id(), recordEntry{old.record, o.Modified})
		return
	}
	if said == nil {
		now := n.readRecord(o.Kind, o.ID, o.Raw)
		said = &now
	}
	n.replaceRecord(old, o, *said, had && !old.broken)
}

// replaceRecord gives a record its new form, of which said has been read. If that
// cannot be read and keep says so, the old one stays.
func (n *next) replaceRecord(old recordEntry, o model.Object, said reading, keep bool) {
	records, had := &n.records[o.Kind], old.record != nil
	n.clearFault(o.Key)
	n.compiled[o.Kind].Add(1)
	claims, err := said.claims, said.err
	if o.Fault != nil {
		err = o.Fault
	}
	var p *plan.Plan
	if err == nil {
		p, err = n.compileRecord(o.Key, said.plugins)
	}
	if err != nil {
		n.fault(o.Key, err)
		if keep && !n.exposesConsumer(old.record, o.Raw) {
			records.Set(old.id(), recordEntry{old.record, o.Modified})
			return
		}
		claims = nil
	}
	r := newRecord(&o, p)
	r.broken = err != nil
	if had {
		n.unclaim(old.record)
		n.retireRecord(old.record)
	}
	n.users.move(o.Key, n.recordReferences(old.record), n.recordReferences(r))
	for _, c := range claims {
		n.claim(c, r)
	}
	records.Set(r.id(), recordEntry{r, o.Modified})
}

// exposesConsumer is exposes for what a consumer carries. What authenticates it
// is data and no guard.
func (n *next) exposesConsumer(old *record, raw []byte) bool {
	m, err := apisix.Consumer(old.id(), old.document())
	if old.kind() != model.KindConsumer || err != nil {
		return false
	}
	names, readable := apisix.NamedPlugins(raw)
	return !readable || slices.ContainsFunc(names, func(name string) bool {
		spec, known := n.specs[name]
		return (!known || spec.Guard && spec.Type != "auth") && !enabledIn(m.Plugins, name)
	})
}

func (n *next) removeRecord(k model.Key) {
	if old, had := n.records[k.Kind].Get(k.ID); had {
		n.unclaim(old.record)
		n.retireRecord(old.record)
		n.users.move(k, n.recordReferences(old.record), n.recordReferences(nil))
		n.records[k.Kind].Del(k.ID)
	}
}

// compileRecord compiles a consumer's plugins that run: those that do not
// authenticate. nil: there are none.
func (x *compiler) compileRecord(k model.Key, plugins model.Plugins) (*plan.Plan, error) {
	if k.Kind != model.KindConsumer || !x.runs(plugins) {
		return nil, nil
	}
	return x.compilePlan(x.withoutAuth(confsOf("consumers/"+k.ID, plugins)))
}

// runs says that some of a consumer's plugins do more than authenticate.
func (x *compiler) runs(plugins model.Plugins) bool {
	for name := range plugins {
		if !x.authenticates(name) {
			return true
		}
	}
	return false
}

func (n *next) retireRecord(r *record) {
	if p := r.plan(); p != nil {
		n.retire(p.Release)
	}
}

// recordReferences are those of a consumer's plan.
func (n *next) recordReferences(r *record) func(func(model.Key) bool) {
	return func(yield func(model.Key) bool) {
		p := r.plan()
		if p == nil {
			return
		}
		for _, s := range p.Steps() {
			if n.all[s.Plugin].MetadataSchema() != nil && !yield(model.Key{Kind: model.KindPluginMetadata, ID: s.Plugin}) {
				return
			}
		}
	}
}

// recordAgain gives a consumer a new plan. It becomes another record, so that
// what was decoded for the old one is not used any more.
func (n *next) recordAgain(old recordEntry) error {
	n.compiled[model.KindConsumer].Add(1)
	o := old.object()
	said := n.readRecord(o.Kind, o.ID, o.Raw)
	if said.err != nil {
		return said.err
	}
	claims := said.claims
	p, err := n.compileRecord(o.Key, said.plugins)
	if err != nil {
		return err
	}
	r := newRecord(&o, p)
	n.unclaim(old.record)
	n.retireRecord(old.record)
	for _, c := range claims {
		n.claim(c, r)
	}
	n.records[model.KindConsumer].Set(r.id(), recordEntry{r, old.modified})
	return nil
}

// A claim is a key under which a plugin shall find a record.
type claim struct{ plugin, key string }

func (c claim) path() string { return c.plugin + "\x00" + c.key }

// secretRef says that a key is still a reference: it must not authenticate
// anybody who sends its text.
func secretRef(key string) bool {
	return hasPrefixFold(key, "$secret://") || hasPrefixFold(key, "$env://")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func (n *next) indexOf(plugin string) *cow.Edit[*record] {
	e := n.index[plugin]
	if e == nil {
		var m cow.Map[*record]
		if now := n.s.index[plugin]; now != nil {
			m = *now
		}
		e = m.Edit()
		n.index[plugin] = e
	}
	return e
}

// claim puts r under a key. Of several claims the one that was created first
// holds, then the lesser id, so that a restart changes nothing; all are faults.
func (n *next) claim(c claim, r *record) {
	index := n.indexOf(c.plugin)
	holder, taken := index.Get(c.key)
	if !taken {
		index.Set(r.within(c.key), r)
		return
	}
	all, _ := n.disputed.Get(c.path())
	if all == nil {
		all = []*record{holder}
	}
	n.settle(c, append(slices.Clone(all), r))
}

func (n *next) unclaim(r *record) {
	claims := n.readRecord(r.kind(), r.id(), r.document()).claims
	for _, c := range claims {
		all, disputed := n.disputed.Get(c.path())
		if !disputed {
			index := n.indexOf(c.plugin)
			if holder, _ := index.Get(c.key); holder == r {
				index.Del(c.key)
			}
			continue
		}
		n.settle(c, slices.DeleteFunc(slices.Clone(all), func(x *record) bool { return x == r }))
	}
}

// settle gives a key to the first of its claimants.
func (n *next) settle(c claim, all []*record) {
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.id(), b.id()))
	})
	n.indexOf(c.plugin).Set(all[0].within(c.key), all[0])
	if len(all) == 1 {
		n.disputed.Del(c.path())
		return
	}
	n.disputed.Set(c.path(), all)
	n.config.Log.Error("several consumers claim one key", "plugin", c.plugin, "holder", all[0].id(), "claims", len(all))
}

// disputes yields every record whose key another one claims too.
func (s *Snapshot) disputes(yield func(r *record, err error) bool) {
	for path, all := range s.disputed.All() {
		plugin, _, _ := strings.Cut(path, "\x00")
		err := fmt.Errorf("its key of plugin %s belongs to several; %s holds it", plugin, all[0].id())
		for _, r := range all {
			if !yield(r, err) {
				return
			}
		}
	}
}
