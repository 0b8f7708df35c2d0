package reference

import (
	"fmt"
	"strings"
)

// environment are the values that references to secrets in the environment have.
func environment() []string { return []string{"env.a", "env.b", "env.c"} }

// Env is what the gateway's environment must have, NAME=VALUE.
func Env() []string {
	var all []string
	for i, value := range environment() {
		all = append(all, fmt.Sprintf("SOAK_%d=%s", i, value))
	}
	return all
}

// SNI is the name that an ssl is for.
func SNI(ssl string) string {
	if ssl == AnySSL {
		return "*.soak.test"
	}
	return strings.ReplaceAll(strings.TrimPrefix(ssl, "ssls/"), "_", "-") + ".soak.test"
}

// Port is the port of a stream route.
func (g *Generator) Port(route string) int {
	var n int
	_, _ = fmt.Sscanf(route, "stream_routes/soak_%d", &n) // it was made here
	return g.Ports[n]
}

// writer makes documents that compile, or that the Admin API has to refuse.
func (g *Generator) writer(key string) func(World, string) Op {
	dir := Kind(key)
	switch {
	case strings.HasSuffix(key, "_call"):
		return g.call
	case dir == "ssls":
		return g.ssl
	case dir == "stream_routes":
		return g.stream
	case dir == "protos":
		return g.proto
	case dir == "secrets":
		return g.secret
	case dir == "graphql_cost_decorations":
		return g.decoration
	}
	return g.put
}

// refused is a write that the Admin API must not take.
func refused(w World, key, body string, status int) Op {
	return Op{Key: key, Body: body, Status: status, Next: w}
}

func (g *Generator) ssl(w World, key string) Op {
	d := &Doc{Certificate: 1 + g.rng.IntN(len(g.Pairs)), Disabled: g.rng.IntN(8) == 0}
	status, other := 1, d.Certificate
	if d.Disabled {
		status = 0
	}
	if !d.Disabled && g.rng.IntN(10) == 0 {
		other = d.Certificate%len(g.Pairs) + 1
	}
	body := fmt.Sprintf(`{"snis":[%q],"status":%d,"cert":%q,"key":%q}`, SNI(key), status, g.Pairs[d.Certificate-1].Cert, g.Pairs[other-1].Key)
	op := store(w, key, body, d)
	if other != d.Certificate { // the Admin API, as APISIX's, does not compare them
		op.Next = w.With(key, Object{Stored: true, Broken: true, Good: w.Good(key)})
	}
	return op
}

func (g *Generator) stream(w World, key string) Op {
	d := &Doc{Refuses: g.rng.IntN(5) == 0}
	op := Op{Key: key, Status: 200, Next: w}
	members := []string{fmt.Sprintf(`"server_port":%d`, g.Port(key)), fmt.Sprintf(`"desc":"%d"`, g.n)}
	if d.Refuses {
		members = append(members, `"plugins":{"ip-restriction":{"blacklist":["127.0.0.0/8"]}}`)
	}
	members = append(members, g.references(w, &op, d, "stream_routes", key)...)
	op.Body = "{" + strings.Join(members, ",") + "}"
	if op.Status == 200 {
		op.Next = w.With(key, Object{Stored: true, Good: d})
	}
	return op
}

// The service that every proto describes.
const callService, callMethod = "soak.Soak", "Ask"

func (g *Generator) proto(w World, key string) Op {
	field := fmt.Sprintf("node_%d", g.n)
	content := fmt.Sprintf(`syntax = "proto3"; package soak; service Soak { rpc Ask (Q) returns (A) {} } message Q {} message A { string %s = 1; }`, field)
	if g.rng.IntN(10) == 0 {
		return refused(w, key, fmt.Sprintf(`{"content":%q}`, content+" message {"), 400)
	}
	return store(w, key, fmt.Sprintf(`{"content":%q}`, content), &Doc{Field: field})
}

// call writes a route whose requests become calls. The proto need not be there.
func (g *Generator) call(w World, key string) Op {
	proto := fmt.Sprintf("soak_%d", g.rng.IntN(protos))
	d := &Doc{Node: 1 + g.rng.IntN(len(g.Nodes)), Proto: "protos/" + proto}
	return store(w, key, fmt.Sprintf(`{"uri":%q,"desc":"%d","plugins":{"grpc-transcode":{"proto_id":%q,"service":%q,"method":%q}},"upstream":{"scheme":"grpc",%s}}`,
		Path(key), g.n, proto, callService, callMethod, g.inside(d.Node)), d)
}

func (g *Generator) secret(w World, key string) Op {
	if g.rng.IntN(10) == 0 {
		return refused(w, key, `{"uri":"http://127.0.0.1:1","prefix":5,"token":"t"}`, 400)
	}
	return store(w, key, fmt.Sprintf(`{"uri":"http://127.0.0.1:1","prefix":"kv/%d","token":"t"}`, g.n), &Doc{})
}

func (g *Generator) decoration(w World, key string) Op {
	body := fmt.Sprintf(`{"field_path":"Query.%s","add_value":%d}`, key[strings.LastIndexByte(key, '/')+1:], g.n)
	if !w[Owner(key)].Stored {
		return refused(w, key, body, 404)
	}
	return store(w, key, body, &Doc{})
}

// list writes the list of plugins, for which there is no Admin API, or deletes it.
func (g *Generator) list(w World, key string) Op {
	op := Op{Key: key, Direct: true, Status: 200, Next: w.With(key, Object{})}
	if g.rng.IntN(3) == 0 {
		return op
	}
	d := &Doc{Unlimited: g.rng.IntN(2) == 0}
	op.Body = `[{"name":"key-auth"},{"name":"response-rewrite"},{"name":"grpc-transcode"},{"name":"ip-restriction","stream":true}`
	if !d.Unlimited {
		op.Body += `,{"name":"limit-count"}`
	}
	op.Body += "]"
	op.Next = w.With(key, Object{Stored: true, Good: d})
	return op
}

// breakEdge is breakIt for what is not about requests.
func (g *Generator) breakEdge(w World, key string) (Op, bool) {
	dir, id := Kind(key), key[strings.LastIndexByte(key, '/')+1:]
	o := w[key]
	op := Op{Key: key, Direct: true, Status: 200}
	next := Object{Stored: true, Broken: true, Good: o.Good}
	switch dir {
	case "ssls":
		op.Body = fmt.Sprintf(`{"id":%q,"snis":[%q],"desc":"%d","cert":"none","key":"none"}`, id, SNI(key), g.n)
	case "stream_routes":
		op.Body = fmt.Sprintf(`{"id":%q,"server_port":"none","desc":"%d"}`, id, g.n)
		if g.rng.IntN(2) == 0 {
			op.Body = fmt.Sprintf(`{"id":%q,"server_port":%d,"desc":"%d","plugins":{"ip-restriction":{"blacklist":5}}}`, id, g.Port(key), g.n)
			next.Shut = true
		}
	case "protos":
		op.Body = fmt.Sprintf(`{"id":%q,"desc":"%d","content":%q}`, id, g.n, []string{"none", "syntax"}[g.rng.IntN(2)])
		next.Good = nil // it is text, and is taken; calls find out
	default:
		return op, false
	}
	op.Next = w.With(key, next)
	return op, true
}
