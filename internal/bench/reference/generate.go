package reference

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// How many objects of a kind there can be.
const (
	Routes        = 40
	services      = 10
	upstreams     = 10
	pluginConfigs = 8
	consumers     = 20
	credentials   = 2 // of each consumer
	groups        = 6
	globalRules   = 3
)

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

// A Generator makes random writes. The same seed makes the same writes.
type Generator struct {
	Nodes []string // addresses of the origins; node n is the n-th from 1

	rng *rand.Rand
	n   int // writes made
}

// New is a generator with a seed.
func New(nodes []string, seed uint64) *Generator {
	return &Generator{Nodes: nodes, rng: rand.New(rand.NewPCG(seed, 7))}
}

// Next is a write that fits the world w.
func (g *Generator) Next(w World) Op {
	g.n++
	key := g.key()
	if key == LimitMetadata || key == LimitRoute {
		return g.limit(w, key)
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
	return g.put(w, key)
}

// Route is a random route's key, for a request.
func (g *Generator) Route(rng *rand.Rand) string {
	if rng.IntN(Routes+2) >= Routes {
		return LimitRoute
	}
	return fmt.Sprintf("routes/soak_%d", rng.IntN(Routes))
}

// APIKey is a random key that is, or was, or will be a consumer's; or none.
func (g *Generator) APIKey(rng *rand.Rand, w World) string {
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

// key is that of a random object.
func (g *Generator) key() string {
	pick := func(dir string, n int) string { return fmt.Sprintf("%s/soak_%d", dir, g.rng.IntN(n)) }
	switch n := g.rng.IntN(100); {
	case n < 35:
		return pick("routes", Routes)
	case n < 45:
		return pick("services", services)
	case n < 55:
		return pick("upstreams", upstreams)
	case n < 63:
		return pick("plugin_configs", pluginConfigs)
	case n < 78:
		return pick("consumers", consumers)
	case n < 88:
		return pick("consumers", consumers) + fmt.Sprintf("/credentials/soak_%d", 1+g.rng.IntN(credentials))
	case n < 94:
		return pick("consumer_groups", groups)
	case n < 97:
		return pick("global_rules", globalRules)
	case n < 98:
		return LimitRoute
	}
	return LimitMetadata
}

// limit writes the route with the limit, or the metadata of its plugin.
func (g *Generator) limit(w World, key string) Op {
	if key == LimitRoute {
		node := 1 + g.rng.IntN(len(g.Nodes))
		return Op{
			Key: key, Status: 200, Next: w.With(key, Object{Stored: true, Good: &Doc{Node: node}}),
			Body: fmt.Sprintf(`{"id":"soak_limit","uri":%q,"plugins":{"limit-count":{"count":1000000000,"time_window":3600}},"upstream":%s}`,
				Path(key), g.upstream(node)),
		}
	}
	if w[key].Stored && g.rng.IntN(3) == 0 {
		return Op{Key: key, Status: 200, Next: w.With(key, Object{})}
	}
	header := fmt.Sprintf("X-Soak-Limit-%d", g.n%7)
	return Op{
		Key: key, Status: 200, Next: w.With(key, Object{Stored: true, Good: &Doc{Header: header}}),
		Body: fmt.Sprintf(`{"limit_header":%q}`, header),
	}
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
	dir, id, _ := strings.Cut(key, "/")
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
		return op, false
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
	if owner, _, credential := strings.Cut(key, "/credentials/"); credential && !w[owner].Stored {
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
		plugins = append(plugins, fmt.Sprintf(`"response-rewrite":{"headers":{"set":{%q:%q}}}`, header, d.Mark))
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
