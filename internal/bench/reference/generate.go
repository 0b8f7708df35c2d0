package reference

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// How many objects of a kind there can be.
const (
	routes        = 40
	services      = 10
	upstreams     = 10
	pluginConfigs = 8
	consumers     = 20
	credentials   = 2 // of each consumer
	groups        = 6
	globalRules   = 3
	ssls          = 8
	StreamRoutes  = 6 // each has its port
	protos        = 4
	calls         = 8 // routes whose requests become gRPC calls
	secrets       = 5
	decorations   = 2 // of each service
)

// PluginList is the list of the plugins that are enabled.
const PluginList = "plugins"

// AnySSL is the ssl whose certificate is for every name that has none of its own.
const AnySSL = "ssls/soak_any"

// LimitRoute is the route that has limit-count, whose metadata name the header in
// which it tells the limit.
const (
	LimitRoute         = "routes/soak_limit"
	LimitMetadata      = "plugin_metadata/limit-count"
	DefaultLimitHeader = "X-RateLimit-Limit"
)

// An Op is one write.
type Op struct {
	Key    string
	Body   string // of a PUT; empty: DELETE
	Direct bool   // into the store, past the Admin API
	Status int    // what the Admin API has to answer: 200 (or 201), 400, 404
	Next   World  // the world afterwards; the same if it is refused
}

// A Generator makes random writes and questions. The same seed makes the same writes.
type Generator struct {
	Origins

	rng *rand.Rand
	n   int // writes made
}

// Origins are what documents lead to and hold.
type Origins struct {
	Nodes []string // addresses of the origins; node n is the n-th from 1
	Pairs []Pair   // that ssls show; certificate n is the n-th from 1
	Ports []int    // of stream routes, in their order
}

// A Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key string }

// New is a generator with a seed.
func New(o Origins, seed uint64) *Generator {
	return &Generator{Origins: o, rng: rand.New(rand.NewPCG(seed, 7))}
}

// Next is a write that fits the world w.
func (g *Generator) Next(w World) Op {
	g.n++
	key := randomKey(g.rng)
	if make := g.special(key); make != nil {
		return make(w, key)
	}
	switch n := g.rng.IntN(100); {
	case n < 12:
		if op, ok := g.breakIt(w, key); ok {
			return op
		}
	case n < 35:
		if op, ok := g.remove(w, key); ok {
			return op
		}
	}
	return g.writer(key)(w, key)
}

// special makes the writes of objects that have rules of their own; nil: the object
// has none.
func (g *Generator) special(key string) func(World, string) Op {
	switch key {
	case LimitRoute, LimitMetadata:
		return g.limit
	case PluginList:
		return g.list
	}
	return nil
}

// Ask is a random question.
func (g *Generator) Ask(rng *rand.Rand, w World) Question {
	q := Question{Route: randomRoute(rng), APIKey: randomAPIKey(rng, w)}
	q.Object = q.Route
	switch n := rng.IntN(100); {
	case n < 8:
		q.Object = fmt.Sprintf("stream_routes/soak_%d", rng.IntN(StreamRoutes))
	case n < 16:
		q.Object = fmt.Sprintf("ssls/soak_%d", rng.IntN(ssls))
	case n < 24:
		if q.Object = randomKey(rng); q.Object == PluginList {
			q.Object = AnySSL // the Admin API does not have the list
		}
		q.Stored = true
	}
	return q
}

// randomRoute is a route's key, for a request.
func randomRoute(rng *rand.Rand) string {
	switch n := rng.IntN(routes + calls + 2); {
	case n < routes:
		return fmt.Sprintf("routes/soak_%d", n)
	case n < routes+calls:
		return fmt.Sprintf("routes/soak_%d_call", n-routes)
	}
	return LimitRoute
}

// randomAPIKey is a key that is, or was, or will be a consumer's; or none.
func randomAPIKey(rng *rand.Rand, w World) string {
	if rng.IntN(4) == 0 {
		return []string{"", "nobody's"}[rng.IntN(2)]
	}
	owner := fmt.Sprintf("consumers/soak_%d", rng.IntN(consumers))
	if n := rng.IntN(credentials + 1); n > 0 {
		owner += fmt.Sprintf("/credentials/soak_%d", n)
	}
	if d := w.Good(owner); d != nil {
		return d.APIKey
	}
	return ""
}

// randomKey is that of a random object.
func randomKey(rng *rand.Rand) string {
	pick := func(dir string, n int) string { return fmt.Sprintf("%s/soak_%d", dir, rng.IntN(n)) }
	n := rng.IntN(100)
	for _, c := range []struct {
		share int
		pick  func() string
	}{
		{28, func() string { return pick("routes", routes) }},
		{3, func() string { return pick("routes", calls) + "_call" }},
		{9, func() string { return pick("services", services) }},
		{9, func() string { return pick("upstreams", upstreams) }},
		{7, func() string { return pick("plugin_configs", pluginConfigs) }},
		{12, func() string { return pick("consumers", consumers) }},
		{8, func() string {
			return fmt.Sprintf("%s/credentials/soak_%d", pick("consumers", consumers), 1+rng.IntN(credentials))
		}},
		{5, func() string { return pick("consumer_groups", groups) }},
		{3, func() string { return pick("global_rules", globalRules) }},
		{5, func() string { return pick("stream_routes", StreamRoutes) }},
		{3, func() string { return pick("ssls", ssls) }},
		{1, func() string { return AnySSL }},
		{2, func() string { return pick("protos", protos) }},
		{1, func() string { return pick("secrets/vault", secrets) }},
		{1, func() string {
			return pick("services", services) + "/graphql_cost_decorations" + fmt.Sprintf("/soak_%d", rng.IntN(decorations))
		}},
		{1, func() string { return LimitRoute }},
		{1, func() string { return LimitMetadata }},
	} {
		if n -= c.share; n < 0 {
			return c.pick()
		}
	}
	return PluginList
}

// limit writes the route with the limit, or the metadata of its plugin.
func (g *Generator) limit(w World, key string) Op {
	if key == LimitRoute {
		node := 1 + g.rng.IntN(len(g.Nodes))
		body := fmt.Sprintf(`{"id":"soak_limit","uri":%q,"plugins":{"limit-count":{"count":1000000000,"time_window":3600}},"upstream":%s}`,
			Path(key), g.upstream(node))
		if w.unlimited() {
			return Op{Key: key, Status: 400, Next: w, Body: body}
		}
		return store(w, key, body, &Doc{Node: node})
	}
	if w[key].Stored && g.rng.IntN(3) == 0 {
		return Op{Key: key, Status: 200, Next: w.With(key, Object{})}
	}
	header := fmt.Sprintf("X-Soak-Limit-%d", g.n%7)
	return store(w, key, fmt.Sprintf(`{"limit_header":%q}`, header), &Doc{Header: header})
}

// store is a write that is taken.
func store(w World, key, body string, d *Doc) Op {
	return Op{Key: key, Body: body, Status: 200, Next: w.With(key, Object{Stored: true, Good: d})}
}

// Path is what reaches a route.
func Path(route string) string { return "/soak/" + strings.TrimPrefix(route, "routes/") }

// remove deletes an object. The Admin API has to refuse where it is in use, and where
// it is not there.
func (g *Generator) remove(w World, key string) (Op, bool) {
	op := Op{Key: key, Status: 200, Next: w.With(key, Object{})}
	users := w.users(key)
	switch {
	case slices.ContainsFunc(users, func(k string) bool { return w[k].Broken }):
		return op, false // whether what runs or what is stored is in use is not for a model to say
	case !w[key].Stored && len(users) == 0:
		op.Status, op.Next = 404, w
	case len(users) > 0:
		op.Status, op.Next = 400, w
	}
	return op, true
}

// breakIt stores a document that does not compile, where the Admin API cannot see it.
func (g *Generator) breakIt(w World, key string) (Op, bool) {
	dir, id := Kind(key), key[strings.LastIndexByte(key, '/')+1:]
	o := w[key]
	op := Op{Key: key, Direct: true, Status: 200}
	next := Object{Stored: true, Broken: true, Good: o.Good}
	switch dir {
	case "routes":
		op.Body = fmt.Sprintf(`{"id":%q,"uri":5,"desc":"%d"}`, id, g.n)
		next.Shut = o.Shut && o.Good == nil // what cannot be read does not open what is shut
		if g.rng.IntN(2) == 0 {
			op.Body = fmt.Sprintf(`{"id":%q,"uri":%q,"desc":"%d","plugins":{"key-auth":{"hide_credentials":"perhaps"}},"upstream":%s}`, id, Path(key), g.n, g.upstream(1))
			next.Shut = o.Good == nil || !o.Good.Guard
		}
	case "upstreams":
		op.Body = fmt.Sprintf(`{"id":%q,"nodes":5,"desc":"%d"}`, id, g.n)
	case "services":
		op.Body = fmt.Sprintf(`{"id":%q,"upstream":5,"desc":"%d"}`, id, g.n)
	case "plugin_configs", "consumer_groups", "global_rules":
		op.Body = fmt.Sprintf(`{"id":%q,"desc":"%d","plugins":{"response-rewrite":{"status_code":"many"}}}`, id, g.n)
	default:
		return g.breakEdge(w, key)
	}
	// What never compiled and is named by nobody is no more than a fault.
	if dir != "routes" && o.Good == nil {
		return op, false
	}
	op.Next = w.With(key, next)
	return op, true
}

// put stores a document that compiles.
func (g *Generator) put(w World, key string) Op {
	dir, id, _ := strings.Cut(key, "/")
	d := &Doc{}
	op := Op{Key: key, Status: 200}
	if owner := Owner(key); owner != "" && !w[owner].Stored {
		op.Status = 404
	}
	if dir == "global_rules" && w.another(key) {
		op.Status = 400
	}
	var plugins, members []string
	if dir != "upstreams" && !strings.Contains(key, "/credentials/") && (dir == "global_rules" || g.rng.IntN(3) > 0) {
		d.Mark = fmt.Sprintf("%s-%d", strings.ReplaceAll(key, "/", "."), g.n)
		header := MarkHeader
		if dir == "global_rules" {
			header = GlobalHeader(key)
		}
		said := d.Mark
		if n := g.rng.IntN(8 * len(environment())); n < len(environment()) {
			said, d.Mark = fmt.Sprintf("$env://SOAK_%d", n), environment()[n]
		}
		plugins = append(plugins, fmt.Sprintf(`"response-rewrite":{"headers":{"set":{%q:%q}}}`, header, said))
	}
	switch dir {
	case "routes", "services", "plugin_configs":
		if d.Guard = g.rng.IntN(4) == 0; d.Guard {
			plugins = append(plugins, `"key-auth":{}`)
		}
	case "consumers":
		d.APIKey = fmt.Sprintf("soak-key-%d", g.n)
		plugins = append(plugins, fmt.Sprintf(`"key-auth":{"key":%q}`, d.APIKey))
		if !strings.Contains(key, "/credentials/") {
			members = append(members, fmt.Sprintf(`"username":%q`, id))
		}
	}
	if dir != "consumers" {
		members = append(members, fmt.Sprintf(`"id":%q`, id))
	}
	members = append(members, g.references(w, &op, d, dir, key)...)
	if dir != "upstreams" {
		members = append(members, `"plugins":{`+strings.Join(plugins, ",")+`}`)
	}
	op.Body = "{" + strings.Join(members, ",") + "}"
	op.Next = w
	if op.Status == 200 {
		op.Next = w.With(key, Object{Stored: true, Good: d})
	}
	return op
}

// references chooses what a document refers to and where it leads. A reference to
// what is not there has to be refused.
func (g *Generator) references(w World, op *Op, d *Doc, dir, key string) (members []string) {
	refer := func(to *string, member, target string, n int) {
		id := fmt.Sprintf("soak_%d", g.rng.IntN(n))
		*to = target + "/" + id
		members = append(members, fmt.Sprintf(`%q:%q`, member, id))
		if !w[*to].Stored {
			op.Status = 400
		}
	}
	lead := func() {
		if g.rng.IntN(2) == 0 {
			refer(&d.Upstream, "upstream_id", "upstreams", upstreams)
			return
		}
		d.Node = 1 + g.rng.IntN(len(g.Nodes))
		members = append(members, `"upstream":`+g.upstream(d.Node))
	}
	switch dir {
	case "upstreams":
		d.Node = 1 + g.rng.IntN(len(g.Nodes))
		return append(members, g.inside(d.Node))
	case "services":
		lead()
	case "stream_routes":
		if g.rng.IntN(3) == 0 {
			refer(&d.Service, "service_id", "services", services)
		} else {
			lead()
		}
	case "routes":
		members = append(members, fmt.Sprintf(`"uri":%q`, Path(key)))
		if d.Disabled = g.rng.IntN(10) == 0; d.Disabled {
			members = append(members, `"status":0`)
		}
		if g.rng.IntN(3) == 0 {
			refer(&d.Service, "service_id", "services", services)
		} else {
			lead()
		}
		if g.rng.IntN(3) == 0 {
			refer(&d.PluginConfig, "plugin_config_id", "plugin_configs", pluginConfigs)
		}
	case "consumers":
		if !strings.Contains(key, "/credentials/") && g.rng.IntN(2) == 0 {
			refer(&d.Group, "group_id", "consumer_groups", groups)
		}
	}
	return members
}

// inside is the members of an upstream with one node.
func (g *Generator) inside(node int) string {
	return fmt.Sprintf(`"type":"roundrobin","nodes":{%q:1}`, g.Nodes[node-1])
}

func (g *Generator) upstream(node int) string { return "{" + g.inside(node) + "}" }
