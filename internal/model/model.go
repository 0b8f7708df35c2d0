// Package model is the vocabulary of the configuration: kinds of objects, the
// objects as a source delivers them, and the typed form that the snapshot
// compiles. It is plain data without behaviour.
package model

// A Kind is a sort of configuration object.
type Kind uint8

// The kinds, in the order in which a complete state lists them.
const (
	KindRoute Kind = iota
	KindService
	KindUpstream
	KindConsumer
	KindCredential
	KindConsumerGroup
	KindPluginConfig
	KindGlobalRule
	KindPluginMetadata
	KindSSL
	KindStreamRoute
	KindProto
	KindSecret
	KindCostDecoration
	KindPlugins
	KindProduct // a 3scale service; see package dialect/apicast for its document
	// KindCount is the number of kinds, for arrays indexed by Kind.
	KindCount
)

// Dir is the directory of the kind below the store's prefix and its segment in
// the Admin API, for instance "routes" (APISIX's etcd layout). Credentials lie
// below their consumer and cost decorations below their service; for them Dir
// is the name of that inner directory.
func (k Kind) Dir() string { return kinds[k].dir }

// String is the noun of messages, for instance "route".
func (k Kind) String() string { return kinds[k].noun }

// kinds is immutable.
var kinds = [KindCount]struct{ dir, noun string }{
	KindRoute:          {"routes", "route"},
	KindService:        {"services", "service"},
	KindUpstream:       {"upstreams", "upstream"},
	KindConsumer:       {"consumers", "consumer"},
	KindCredential:     {"credentials", "credential"},
	KindConsumerGroup:  {"consumer_groups", "consumer group"},
	KindPluginConfig:   {"plugin_configs", "plugin config"},
	KindGlobalRule:     {"global_rules", "global rule"},
	KindPluginMetadata: {"plugin_metadata", "plugin_metadata"},
	KindSSL:            {"ssls", "ssl"},
	KindStreamRoute:    {"stream_routes", "stream route"},
	KindProto:          {"protos", "proto"},
	KindSecret:         {"secrets", "secret"},
	KindCostDecoration: {"graphql_cost_decorations", "graphql cost decoration"},
	KindPlugins:        {"plugins", "plugins"},
	KindProduct:        {"products", "product"},
}

// A Key names one object. The ID of a credential is
// "CONSUMER/credentials/ID", of a secret "MANAGER/ID", of a cost decoration
// "SERVICE/graphql_cost_decorations/ID"; KindPlugins has the one ID "".
type Key struct {
	Kind Kind
	ID   string
}

// String is the path of the object below the store's prefix, without a leading
// slash: "routes/1", "consumers/jack/credentials/c1".
func (k Key) String() string {
	switch k.Kind {
	case KindCredential:
		return "consumers/" + k.ID
	case KindCostDecoration:
		return "services/" + k.ID
	case KindPlugins:
		return "plugins"
	}
	return k.Kind.Dir() + "/" + k.ID
}

// A Use is a reference from one object to another.
type Use struct {
	By     Key
	Plugin string // whose configuration refers; empty: the object itself
}

// An Object is one stored document.
type Object struct {
	Key
	Created  int64  // store revision that created the object; orders ties. Of products: the place in their document
	Modified int64  // store revision of this version
	Raw      []byte // the JSON document as it is stored; never changed

	// Fault, if not nil, is why the source says that this version may not run.
	// The last good one then stays in force.
	Fault error
}

// A Delta is one step of the configuration. A source's first Delta is the
// whole state; the state before it is empty.
type Delta struct {
	Revision int64    // store revision that the state has after this step
	Put      []Object // at most one per key, none that is also in Del
	Del      []Key
}
