package snapshot

import (
	"encoding/json"
	"errors"
	"maps"

	"weir/internal/cert"
	"weir/internal/cow"
	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/router"
	"weir/internal/upstream"
)

// next is the state after a delta in the making.
type next struct {
	*Applier
	*edits
	compiler           // of this state: its plugins, its metadata
	s        *Snapshot // becomes the next state; its maps are replaced at the end

	router    *router.Edit[*Route]
	certs     *cert.Edit
	documents [model.KindCount]*cow.Edit[*storedDocument]
	index     map[string]*cow.Edit[*record]

	touched        map[string]struct{} // routes to be compiled
	touchedStreams map[string]struct{} // stream routes to be compiled
	touchedHosts   map[string]struct{} // of products, whose paths are to be indexed

	rules   bool     // global rules have changed
	chosen  bool     // other plugins are enabled than before
	retired []func() // what the previous state was the last to use
}

// edits are the changed maps of the step that is applied. Their memory serves every
// step: most touch one or two.
type edits struct {
	routes    cow.Edit[*routeEntry]
	services  cow.Edit[*serviceEntry]
	upstreams cow.Edit[*upstreamEntry]
	sets      [model.KindCount]cow.Edit[*setEntry]
	records   [model.KindCount]cow.Edit[recordEntry]
	documents [model.KindCount]cow.Edit[*storedDocument]
	disputed  cow.Edit[[]*record]
	products  cow.Edit[*productEntry]
	hosts     cow.Edit[host]
	ssls      cow.Edit[*sslEntry]
	faults    cow.Edit[error]

	streams     cow.Edit[*streamEntry]
	streamTable streamTableEdit
}

func (e *edits) begin(prev *Snapshot) {
	e.routes.Begin(prev.routes)
	e.services.Begin(prev.services)
	e.upstreams.Begin(prev.upstreams)
	for k := range model.KindCount {
		e.sets[k].Begin(prev.sets[k])
		e.records[k].Begin(prev.records[k])
		e.documents[k].Begin(prev.documents[k])
	}
	e.disputed.Begin(prev.disputed)
	e.products.Begin(prev.products)
	e.hosts.Begin(prev.hosts)
	e.ssls.Begin(prev.ssls)
	e.faults.Begin(prev.faults)
	e.streams.Begin(prev.streams)
	e.streamTable.Begin(prev.streamTable)
}

func (e *edits) end(s *Snapshot) {
	s.routes = e.routes.Map()
	s.services = e.services.Map()
	s.upstreams = e.upstreams.Map()
	for k := range model.KindCount {
		s.sets[k] = e.sets[k].Map()
		s.records[k] = e.records[k].Map()
	}
	s.disputed = e.disputed.Map()
	s.products = e.products.Map()
	s.hosts = e.hosts.Map()
	s.ssls = e.ssls.Map()
	s.faults = e.faults.Map()
	s.streams = e.streams.Map()
	s.streamTable = e.streamTable.Map()
}

func (a *Applier) begin(prev *Snapshot) *next {
	n := &next{
		Applier:  a,
		edits:    &a.edits,
		compiler: *prev.with,
		s:        prev.at(prev.Revision),
		router:   prev.router.Edit(),
		certs:    prev.certs.Edit(),
		index:    map[string]*cow.Edit[*record]{},
		touched:  map[string]struct{}{},

		touchedStreams: map[string]struct{}{},
	}
	n.edits.begin(prev)
	for k := range model.KindCount {
		n.documents[k] = &n.edits.documents[k]
	}
	for _, k := range []model.Kind{model.KindPluginMetadata, model.KindProto} { // plugins may hold on to them
		n.documents[k] = prev.documents[k].Edit()
	}
	n.compiler.env.Metadata, n.compiler.env.Proto = n.metadataOf(), n.protoOf()
	return n
}

func (n *next) end(revision int64) *Snapshot {
	s := n.s
	s.Revision = revision
	n.indexPaths()
	n.edits.end(s)
	s.router = n.router.Router()
	s.certs = n.certs.Set()
	for k := range model.KindCount {
		s.documents[k] = n.documents[k].Map()
	}
	if len(n.index) > 0 {
		s.index = maps.Clone(s.index)
		for name, edit := range n.index {
			m := edit.Map()
			s.index[name] = &m
		}
	}
	return s
}

// put takes an object; said is what has been read of one that is a record, or nil.
func (n *next) put(o model.Object, said *reading) {
	if created, had := n.createdAt(o.Key); had && created != o.Created {
		// It was deleted in between: nothing of the old one lives on.
		n.remove(o.Key)
	}
	switch o.Kind {
	case model.KindRoute:
		n.putRoute(o)
	case model.KindService:
		n.putService(o)
	case model.KindUpstream:
		n.putUpstream(o)
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		n.putSet(o)
	case model.KindSSL:
		n.putSSL(o)
	case model.KindStreamRoute:
		n.putStream(o)
	case model.KindPluginMetadata:
		n.putMetadata(o)
	case model.KindConsumer, model.KindCredential:
		n.putRecord(o, said)
	case model.KindPlugins: // see putPlugins
	case model.KindProduct:
		n.putProduct(o)
	case model.KindProto:
		n.putProto(o)
	default:
		n.putDocument(o)
	}
}

// sameVerdict says that the source thinks the same of two versions.
func sameVerdict(a, b model.Object) bool { return (a.Fault == nil) == (b.Fault == nil) }

// A storedDocument is an object that has no compiled form, or has it elsewhere.
type storedDocument struct {
	model.Object
	used []byte // its document, or if that cannot be used the last that could; nil: none
}

// putDocument stores what nothing is compiled from. It reports whether that is
// in force now.
func (n *next) putDocument(o model.Object) bool {
	n.clearFault(o.Key)
	d := &storedDocument{o, o.Raw}
	if o.Fault != nil {
		n.fault(o.Key, o.Fault)
		d.used = nil
		if old, ok := n.documents[o.Kind].Get(o.ID); ok {
			d.used = old.used
		}
	}
	n.documents[o.Kind].Set(o.ID, d)
	return o.Fault == nil
}

// putMetadata takes a plugin's metadata, unless the plugin cannot use it: what
// compiles with the metadata before keeps that.
func (n *next) putMetadata(o model.Object) {
	if spec, known := n.all[o.ID]; known && o.Fault == nil && spec.MetadataSchema() != nil {
		o.Fault = spec.MetadataSchema().Check(o.Raw)
	}
	if spec, known := n.allStreams[o.ID]; known && o.Fault == nil && spec.MetadataSchema() != nil {
		o.Fault = spec.MetadataSchema().Check(o.Raw)
	}
	if n.putDocument(o) {
		n.touch(o.Key)
	}
}

func (n *next) putProto(o model.Object) {
	old, had := n.documents[o.Kind].Get(o.ID)
	before, _ := protoContent(old, had)
	if !n.putDocument(o) {
		return
	}
	if now, _ := protoContent(&storedDocument{o, o.Raw}, true); !had || now != before {
		n.touch(o.Key)
	}
}

// metadataOf returns a function that finds a plugin's metadata. A plugin may hold
// on to it; it holds on to no more than the metadata.
func (n *next) metadataOf() func(plugin string) json.RawMessage {
	documents := n.documents[model.KindPluginMetadata]
	return func(plugin string) json.RawMessage {
		if d, ok := documents.Get(plugin); ok {
			return d.used
		}
		return nil
	}
}

// protoOf returns a function that finds the content of a proto object.
func (n *next) protoOf() func(id string) (string, bool) {
	documents := n.documents[model.KindProto]
	return func(id string) (string, bool) { return protoContent(documents.Get(id)) }
}

// protoContent is what a proto object holds.
func protoContent(d *storedDocument, there bool) (content string, ok bool) {
	if !there {
		return "", false
	}
	var doc struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(d.used, &doc)
	return doc.Content, err == nil
}

// createdAt is the create revision of the object as it is so far; putRecord looks
// at its own.
func (n *next) createdAt(k model.Key) (created int64, had bool) {
	switch k.Kind {
	case model.KindRoute:
		if e, ok := n.routes.Get(k.ID); ok {
			return e.Created, true
		}
	case model.KindService:
		if e, ok := n.services.Get(k.ID); ok {
			return e.Created, true
		}
	case model.KindUpstream:
		if e, ok := n.upstreams.Get(k.ID); ok {
			return e.Created, true
		}
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		if e, ok := n.sets[k.Kind].Get(k.ID); ok {
			return e.Created, true
		}
	case model.KindSSL:
		if e, ok := n.ssls.Get(k.ID); ok {
			return e.created, true
		}
	case model.KindStreamRoute:
		if e, ok := n.streams.Get(k.ID); ok {
			return e.Created, true
		}
	default:
		if d, ok := n.documents[k.Kind].Get(k.ID); ok {
			return d.Created, true
		}
	}
	return 0, false
}

func (n *next) remove(k model.Key) {
	n.clearFault(k)
	switch k.Kind {
	case model.KindRoute:
		n.removeRoute(k.ID)
	case model.KindService:
		n.removeService(k)
	case model.KindUpstream:
		n.removeUpstream(k.ID)
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		n.removeSet(k)
	case model.KindSSL:
		n.removeSSL(k.ID)
	case model.KindStreamRoute:
		n.removeStream(k.ID)
	case model.KindPluginMetadata, model.KindProto:
		n.documents[k.Kind].Del(k.ID)
		n.touch(k)
	case model.KindConsumer, model.KindCredential:
		n.removeRecord(k)
	case model.KindPlugins: // see putPlugins
	case model.KindProduct:
		n.removeProduct(k.ID)
	default:
		n.documents[k.Kind].Del(k.ID)
	}
}

// fault notes that an object does not run as stored. It is the one place that
// logs it: what the applier does not log, its callers see as a status.
func (n *next) fault(k model.Key, err error) {
	n.faults.Set(k.String(), err)
	n.config.Log.Error("configuration object does not run as stored", "object", k.String(), "err", err)
}

func (n *next) clearFault(k model.Key) {
	if n.faults.Len() > 0 {
		n.faults.Del(k.String())
	}
}

// retire closes something once no request can use it any more.
func (n *next) retire(close func()) { n.retired = append(n.retired, close) }

// An upstreamEntry is a stored upstream; running is its last good form, nil if
// it never had one.
type upstreamEntry struct {
	model.Object
	digest  apisix.Digest
	running *Upstream
	foreign bool // it asks for what this build does not have
}

func (n *next) putUpstream(o model.Object) {
	old, _ := n.upstreams.Get(o.ID)
	e := &upstreamEntry{Object: o, digest: apisix.WithoutTimes(o.Raw)}
	if old != nil {
		e.running, e.foreign = old.running, old.foreign
		if old.digest == e.digest && sameVerdict(old.Object, o) {
			n.upstreams.Set(o.ID, e)
			return
		}
	}
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	u, err := (*Upstream)(nil), o.Fault
	if err == nil {
		u, err = n.compileUpstream(o)
	}
	if err != nil {
		n.fault(o.Key, err)
		e.foreign = errors.Is(err, upstream.ErrUnsupported)
	} else {
		if e.running != nil {
			n.retire(e.running.Close)
		}
		e.running = u
	}
	n.upstreams.Set(o.ID, e)
}

func (n *next) removeUpstream(id string) {
	if e, ok := n.upstreams.Get(id); ok && e.running != nil {
		n.retire(e.running.Close)
	}
	n.upstreams.Del(id)
}
