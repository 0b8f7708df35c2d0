package snapshot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/model"
)

// A world is what the store holds, with what of its past still counts.
type world struct {
	rnd   *rand.Rand
	pairs []pair
	now   map[model.Key]model.Object // the current versions
	good  map[model.Key]model.Object // the last that compiled, while it counts
	read  map[model.Key]model.Object // the last that could be read
}

func newWorld(seed uint64, pairs []pair) *world {
	return &world{
		rnd: rand.New(rand.NewPCG(seed, 1)), pairs: pairs,
		now: map[model.Key]model.Object{}, good: map[model.Key]model.Object{}, read: map[model.Key]model.Object{},
	}
}

// A pair is a certificate and its key, as they stand in documents.
type pair struct{ cert, key string }

func newPairs(t testing.TB, n int) []pair {
	var all []pair
	for i := range n {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		made := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotAfter: time.Now().AddDate(1, 0, 0)}
		cert, err := x509.CreateCertificate(crand.Reader, made, made, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text := func(kind string, der []byte) string {
			return fmt.Sprintf("%q", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		}
		all = append(all, pair{text("CERTIFICATE", cert), text("PRIVATE KEY", secret)})
	}
	return all
}

// A verdict is what a document comes to.
type verdict uint8

const (
	fine       verdict = iota
	broken             // it can be read and does not compile
	unreadable         // it is no document of its kind
	exposing           // nor that, and it may have a guard that the last good form lacks
)

// version is a random document.
func (w *world) version(k model.Key) (raw string, v verdict) {
	r := w.rnd
	if r.IntN(20) == 0 && k.Kind != model.KindProduct && k.Kind != model.KindSecret && k.Kind != model.KindCostDecoration {
		if r.IntN(3) == 0 && hasPlugins(k.Kind) {
			return fmt.Sprintf(`{"plugins":%d}`, r.IntN(9)), exposing
		}
		return fmt.Sprint(r.IntN(9)), unreadable
	}
	if r.IntN(6) == 0 {
		v = broken
	}
	parts := []string{fmt.Sprintf(`"update_time":%d`, r.IntN(3))}
	var more []string
	switch k.Kind {
	case model.KindRoute:
		more = w.route(v)
	case model.KindService:
		more = w.service(v)
	case model.KindPluginConfig, model.KindConsumerGroup:
		more = []string{w.plugins(v, "gate", "tag", "meta")}
	case model.KindGlobalRule:
		more = []string{w.plugins(v, "tag", "meta")}
	case model.KindPluginMetadata:
		more = []string{fmt.Sprintf(`"m":%d`, r.IntN(5))}
		if v == broken {
			more = []string{`"m":"x"`}
		}
	case model.KindUpstream:
		more = []string{`"type":"roundrobin"`, fmt.Sprintf(`"nodes":{"127.0.0.1:%d":1}`, 1+r.IntN(3))}
		if v == broken {
			more = append(more, `"scheme":"quic"`)
		}
	case model.KindConsumer:
		more = w.consumer(k.ID, v)
	case model.KindCredential:
		more, v = []string{fmt.Sprintf(`"plugins":{"key-auth":{"key":"k%d"}}`, r.IntN(6))}, fine
	case model.KindSSL:
		more = w.ssl(v)
	case model.KindStreamRoute:
		more = w.stream(v)
	case model.KindProto:
		more, v = []string{fmt.Sprintf(`"content":"text %d"`, r.IntN(4))}, fine
		if r.IntN(6) == 0 {
			more = []string{`"content":7`}
		}
	case model.KindSecret, model.KindCostDecoration:
		more, v = []string{fmt.Sprintf(`"n":%d`, r.IntN(9))}, fine
	case model.KindPlugins:
		return w.list(), fine
	case model.KindProduct:
		return w.product(k.ID)
	}
	return "{" + strings.Join(append(parts, more...), ",") + "}", v
}

func hasPlugins(k model.Kind) bool {
	switch k {
	case model.KindUpstream, model.KindPluginMetadata, model.KindSSL, model.KindProto, model.KindPlugins:
		return false
	}
	return true
}

func (w *world) maybe(n int, format string, args ...any) []string {
	if w.rnd.IntN(n) > 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, args...)}
}

func (w *world) one(of ...string) string { return of[w.rnd.IntN(len(of))] }

// plugins is a member with one or two of the plugins. What is broken is a plugin, or
// a guard, that is always enabled.
func (w *world) plugins(v verdict, names ...string) string {
	confs := map[string]string{}
	conf := func(name string) string {
		if name == "described" {
			return fmt.Sprintf(`{"proto_id":"d%d"}`, w.rnd.IntN(3))
		}
		return fmt.Sprintf(`{"v":%d}`, w.rnd.IntN(5))
	}
	for range 1 + w.rnd.IntN(2) {
		name := w.one(names...)
		confs[name] = conf(name)
	}
	if v == broken {
		confs[w.one("pair", "lock")] = `{"v":-1}`
	}
	var all []string
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range confs {
			if !yield(name) {
				return
			}
		}
	}) {
		all = append(all, fmt.Sprintf("%q:%s", name, confs[name]))
	}
	return `"plugins":{` + strings.Join(all, ",") + `}`
}

func (w *world) route(v verdict) []string {
	r := w.rnd
	parts := []string{
		fmt.Sprintf(`"uri":"/%d%s"`, r.IntN(4), w.one("", "*", "/x")), fmt.Sprintf(`"priority":%d`, r.IntN(2)),
	}
	parts = append(parts, w.maybe(2, `"host":%q`, w.one("a.test", "*.test", "b.test"))...)
	parts = append(parts, w.maybe(2, `"service_id":"s%d"`, r.IntN(3))...)
	parts = append(parts, w.maybe(3, `"plugin_config_id":"p%d"`, r.IntN(2))...)
	parts = append(parts, w.maybe(2, `"upstream_id":"u%d"`, r.IntN(3))...)
	parts = append(parts, w.maybe(8, `"status":0`)...)
	parts = append(parts, w.maybe(8, `"remote_addr":%q`, w.one("127.0.0.1", "10.0.0.0/8"))...)
	parts = append(parts, w.maybe(8, `"vars":[["arg_a","==","1"]]`)...)
	if v == broken || r.IntN(2) == 0 {
		parts = append(parts, w.plugins(v, "tag", "gate", "meta", "described"))
	}
	return parts
}

func (w *world) service(v verdict) []string {
	parts := []string{w.plugins(v, "tag", "described")}
	parts = append(parts, w.maybe(2, `"hosts":["a.test"]`)...)
	return append(parts, w.maybe(2, "%s", node)...)
}

func (w *world) consumer(name string, v verdict) []string {
	r := w.rnd
	parts := []string{fmt.Sprintf(`"username":%q`, name), fmt.Sprintf(`"labels":{"custom_id":"%d"}`, r.IntN(3))}
	parts = append(parts, w.maybe(3, `"group_id":"g%d"`, r.IntN(2))...)
	key := fmt.Sprintf(`"key-auth":{"key":"k%d"}`, r.IntN(6))
	switch {
	case v == broken && r.IntN(2) == 0:
		return append(parts, `"plugins":{"key-auth":{}}`)
	case v == broken:
		return append(parts, `"plugins":{`+key+`,"pair":{"v":-1}}`)
	case r.IntN(2) == 0:
		return append(parts, fmt.Sprintf(`"plugins":{%s,%q:{"v":%d}}`, key, w.one("meta", "tag"), r.IntN(5)))
	case r.IntN(4) > 0:
		return append(parts, `"plugins":{`+key+`}`)
	}
	return parts
}

func (w *world) ssl(v verdict) []string {
	p := w.pairs[w.rnd.IntN(len(w.pairs))]
	parts := []string{`"sni":"` + w.one("a.test", "*.test", "b.test") + `"`}
	if w.rnd.IntN(3) == 0 {
		parts = []string{`"snis":["a.test","b.test"]`}
	}
	if v == broken {
		return append(parts, `"cert":`+p.cert, `"key":"none"`)
	}
	parts = append(parts, `"cert":`+p.cert, `"key":`+p.key)
	parts = append(parts, w.maybe(6, `"status":0`)...)
	return append(parts, w.maybe(6, `"client":{"ca":%s}`, p.cert)...)
}

func (w *world) stream(v verdict) []string {
	r := w.rnd
	var parts []string
	if v == broken || r.IntN(2) == 0 {
		parts = []string{w.plugins(v, "tag", "gate")}
	}
	parts = append(parts, w.maybe(2, `"server_port":%d`, 1+r.IntN(2))...)
	parts = append(parts, w.maybe(4, `"sni":%q`, w.one("a.com", "*.a.com"))...)
	parts = append(parts, w.maybe(6, `"remote_addr":"127.0.0.2"`)...)
	parts = append(parts, w.maybe(3, `"service_id":"s%d"`, r.IntN(3))...)
	if up := w.maybe(3, `"upstream_id":"u%d"`, r.IntN(3)); up != nil {
		return append(parts, up...)
	}
	return append(parts, w.maybe(2, "%s", node)...)
}

// list is a list of plugins, of which some that are no guards may be missing.
func (w *world) list() string {
	all := []string{`{"name":"key-auth"}`, `{"name":"gate"}`, `{"name":"pair"}`, `{"name":"lock"}`, `{"name":"described"}`,
		`{"name":"gate","stream":true}`, `{"name":"pair","stream":true}`, `{"name":"lock","stream":true}`}
	for _, some := range []string{`{"name":"tag"}`, `{"name":"meta"}`, `{"name":"tag","stream":true}`} {
		all = append(all, w.maybe(2, "%s", some)...)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (w *world) product(id string) (string, verdict) {
	v, chain := fine, []string{`{"name":"apicast"}`}
	if w.rnd.IntN(2) == 0 {
		chain = append(chain, `{"name":"other"}`)
	}
	if w.rnd.IntN(6) == 0 {
		// What breaks is no guard that the last good form could lack: all have it.
		v, chain[0] = broken, `{"name":"apicast","configuration":{"break":true}}`
	}
	return fmt.Sprintf(`{"service":{"id":%s,"proxy":{"hosts":["%s.test"],"api_backend":"http://127.0.0.1:%d","policy_chain":[%s]}}}`,
		id, w.one("a", "b", "c"), 1+w.rnd.IntN(3), strings.Join(chain, ",")), v
}

// key is that of a random object.
func (w *world) key() model.Key {
	r := w.rnd
	id := func(k model.Kind, prefix string, n int) model.Key {
		return model.Key{Kind: k, ID: fmt.Sprint(prefix, r.IntN(n))}
	}
	n := r.IntN(100)
	for _, c := range []struct {
		share int
		key   func() model.Key
	}{
		{27, func() model.Key { return id(model.KindRoute, "r", 8) }},
		{9, func() model.Key { return id(model.KindService, "s", 3) }},
		{9, func() model.Key { return id(model.KindUpstream, "u", 3) }},
		{8, func() model.Key { return id(model.KindPluginConfig, "p", 2) }},
		{9, func() model.Key { return id(model.KindConsumer, "c", 4) }},
		{8, func() model.Key {
			return model.Key{Kind: model.KindCredential, ID: fmt.Sprintf("c%d/credentials/%d", r.IntN(4), r.IntN(2))}
		}},
		{6, func() model.Key { return id(model.KindConsumerGroup, "g", 2) }},
		{5, func() model.Key { return id(model.KindGlobalRule, "x", 3) }},
		{3, func() model.Key { return model.Key{Kind: model.KindPluginMetadata, ID: "meta"} }},
		{3, func() model.Key { return id(model.KindSSL, "t", 4) }},
		{6, func() model.Key { return id(model.KindStreamRoute, "l", 5) }},
		{3, func() model.Key { return id(model.KindProto, "d", 3) }},
		{1, func() model.Key { return id(model.KindSecret, "vault/v", 2) }},
		{1, func() model.Key { return id(model.KindCostDecoration, "s0/graphql_cost_decorations/", 2) }},
	} {
		if n -= c.share; n < 0 {
			return c.key()
		}
	}
	return model.Key{Kind: model.KindPlugins}
}

// step makes one random delta, of products or of everything else.
func (w *world) step(revision int64) (d model.Delta, products bool) {
	d.Revision = revision
	products = w.rnd.IntN(12) == 0
	seen := map[model.Key]bool{}
	for range 1 + w.rnd.IntN(4) {
		k := w.key()
		if products {
			k = model.Key{Kind: model.KindProduct, ID: fmt.Sprint(w.rnd.IntN(4))}
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		_, had := w.now[k]
		if had && w.rnd.IntN(4) == 0 {
			d.Del = append(d.Del, k)
			w.forget(k)
			continue
		}
		d.Put = append(d.Put, w.put(k, revision))
	}
	return d, products
}

func (w *world) put(k model.Key, revision int64) model.Object {
	raw, v := w.version(k)
	o := model.Object{Key: k, Created: revision, Modified: revision, Raw: []byte(raw)}
	before, had := w.now[k]
	switch {
	case k.Kind == model.KindProduct: // a place in the document
		o.Created, o.Modified = w.rnd.Int64N(4), 0
	case had && w.rnd.IntN(10) > 0:
		o.Created = before.Created
	default: // new, or deleted and created again, between two resyncs
		w.forget(k)
	}
	w.now[k] = o
	switch {
	case v == fine:
		w.good[k], w.read[k] = o, o
	case v == broken:
		w.read[k] = o
	case v == exposing && k.Kind == model.KindConsumer: // it is nobody then
		delete(w.good, k)
		delete(w.read, k)
	}
	return o
}

func (w *world) forget(k model.Key) {
	delete(w.now, k)
	delete(w.good, k)
	delete(w.read, k)
}

// history is how to come to the world from nothing: its last good versions, those
// that could be read last, the current ones.
func (w *world) history() []model.Delta {
	deltas := []model.Delta{{Revision: 1}, {Revision: 2}, {Revision: 3}}
	for k, o := range w.now {
		deltas[2].Put = append(deltas[2].Put, o)
		if good, ok := w.good[k]; ok {
			deltas[0].Put = append(deltas[0].Put, good)
		}
		if read, ok := w.read[k]; ok {
			deltas[1].Put = append(deltas[1].Put, read)
		}
	}
	return deltas
}

func ofProducts(d model.Delta) (products, others model.Delta) {
	products.Revision, others.Revision = d.Revision, d.Revision
	for _, o := range d.Put {
		if o.Kind == model.KindProduct {
			products.Put = append(products.Put, o)
		} else {
			others.Put = append(others.Put, o)
		}
	}
	return products, others
}
