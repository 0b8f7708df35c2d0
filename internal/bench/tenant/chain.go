package tenant

// A Policy is one of a chain, as it stands in a product's document.
type Policy struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Configuration any    `json:"configuration"` // what the policy's schema says
}

// headers is the configuration of the policy of that name.
type headers struct {
	Request  []headerOp `json:"request,omitempty"`
	Response []headerOp `json:"response,omitempty"`
}

type headerOp struct {
	Op        string `json:"op"`
	Header    string `json:"header"`
	Value     string `json:"value,omitempty"`
	ValueType string `json:"value_type,omitempty"`
}

// logging is the configuration of the policy of that name: no line per request,
// as for the proxy it is compared with.
type logging struct {
	AccessLogs bool `json:"enable_access_logs"`
}

type batcher struct {
	TTL    int `json:"auths_ttl"`
	Report int `json:"batch_report_seconds"`
}

// Chain is seven policies that are often seen together: headers three times,
// logging, headers twice, apicast.
func Chain() []Policy {
	set := func(header, value string) headerOp { return headerOp{"set", header, value, "plain"} }
	return []Policy{
		{"headers", "builtin", headers{Response: []headerOp{set(VersionHeader, "0")}}},
		{"headers", "builtin", headers{Request: []headerOp{set("X-Gateway", "bench"), {Op: "delete", Header: "X-Internal"}}}},
		{"headers", "builtin", headers{Response: []headerOp{{Op: "delete", Header: "X-Powered-By"}, set("X-Frame-Options", "DENY")}}},
		{"logging", "builtin", logging{AccessLogs: false}},
		{"headers", "builtin", headers{Request: []headerOp{{"push", "X-Trace", "bench", "plain"}}}},
		{"headers", "builtin", headers{Response: []headerOp{{"add", "Vary", "Origin", "plain"}, set("X-Content-Type-Options", "nosniff")}}},
		{"apicast", "builtin", struct{}{}},
	}
}

// ChainWithBatcher is Chain with authorizations kept for ten seconds and usage
// reported in batches.
func ChainWithBatcher() []Policy {
	chain := Chain()
	last := len(chain) - 1
	return append(append(chain[:last:last], Policy{"3scale_batcher", "builtin", batcher{TTL: 10, Report: 10}}), chain[last])
}
