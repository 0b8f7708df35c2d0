package bench

import "fmt"

// A kind is one type of object that is loaded in bulk and churned. An object of
// a kind is one or two documents; the last of them is what a request meets, so
// a service and an upstream come with a route of their own.
type kind struct {
	name string
	gone int // status of a request for an object that does not exist

	// documents are what object i consists of, in the order of creation.
	documents func(o origin, i int) []document
	// request is what reaches object i.
	request func(o origin, i int) string
}

// An origin is what all objects of a run have in common.
type origin struct {
	addr string // host:port of the server that routes lead to
	seed uint64
}

// A document is one entry of the store: the key below the prefix, which is also
// the path below /apisix/admin/, and the members of its JSON object.
type document struct {
	key, members string
}

const consumerPath = "/bench/consumers"

func kindOf(name string) kind {
	switch name {
	case "consumers":
		return kind{name: name, gone: 401, documents: consumer, request: consumerRequest}
	case "routes":
		return kind{name: name, gone: 404, documents: route, request: pathRequest(name)}
	case "services":
		return kind{name: name, gone: 404, documents: service, request: pathRequest(name)}
	}
	return kind{name: "upstreams", gone: 404, documents: upstream, request: pathRequest("upstreams")}
}

func consumer(o origin, i int) []document {
	return []document{consumerDocument(fmt.Sprintf("bench_%d", i), apiKey(o.seed, i))}
}

func consumerDocument(name, key string) document {
	return document{
		key:     "consumers/" + name,
		members: fmt.Sprintf(`"username":%q,"plugins":{"key-auth":{"key":%q}}`, name, key),
	}
}

func route(o origin, i int) []document {
	return []document{routeDocument("routes", i, `"upstream":{`+nodes(o)+"}")}
}

func service(o origin, i int) []document {
	id := fmt.Sprintf("bench_%d", i)
	return []document{
		{key: "services/" + id, members: fmt.Sprintf(`"id":%q,"upstream":{%s}`, id, nodes(o))},
		routeDocument("services", i, fmt.Sprintf(`"service_id":%q`, id)),
	}
}

func upstream(o origin, i int) []document {
	id := fmt.Sprintf("bench_%d", i)
	return []document{
		{key: "upstreams/" + id, members: fmt.Sprintf(`"id":%q,%s`, id, nodes(o))},
		routeDocument("upstreams", i, fmt.Sprintf(`"upstream_id":%q`, id)),
	}
}

// consumerRoute is the one route that all consumers use.
func consumerRoute(o origin) document {
	return document{
		key:     "routes/bench_consumers",
		members: fmt.Sprintf(`"id":"bench_consumers","uri":%q,"plugins":{"key-auth":{}},"upstream":{%s}`, consumerPath, nodes(o)),
	}
}

func routeDocument(kind string, i int, target string) document {
	id := fmt.Sprintf("bench_%s_%d", kind, i)
	return document{
		key:     "routes/" + id,
		members: fmt.Sprintf(`"id":%q,"uri":"/bench/%s/%d",%s`, id, kind, i, target),
	}
}

// nodes is the members of an upstream that leads to the origin.
func nodes(o origin) string {
	return fmt.Sprintf(`"type":"roundrobin","nodes":{%q:1}`, o.addr)
}

// apiKey is the key of consumer i: 64 bits that look random and follow from
// the seed (the SplitMix64 generator's i-th output), so none has to be kept.
func apiKey(seed uint64, i int) string {
	z := seed + uint64(i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Sprintf("bench-%016x", z^z>>31)
}

func consumerRequest(o origin, i int) string {
	return "GET " + consumerPath + " HTTP/1.1\r\nHost: bench.test\r\napikey: " + apiKey(o.seed, i) + "\r\n\r\n"
}

func pathRequest(kind string) func(origin, int) string {
	return func(_ origin, i int) string {
		return fmt.Sprintf("GET /bench/%s/%d HTTP/1.1\r\nHost: bench.test\r\n\r\n", kind, i)
	}
}

// A population is how many objects of a kind are loaded in bulk.
type population struct {
	kind
	count int
}
