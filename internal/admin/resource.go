package admin

import (
	"net/http"
	"slices"

	"weir/internal/model"
)

// A resource is one row of the Admin API: how objects of one kind are named,
// checked and protected.
type resource struct {
	kind    model.Kind
	without []string // methods that it refuses
	naming  naming

	filters  []string    // members that the list's filter argument may name
	refs     []reference // what must exist before the object is stored
	blockers []blocker   // who may keep the object from being deleted
	plugins  plugins     // how the member plugins is to be read
	keys     [][]string  // members with private keys, as paths
	below    string      // directory of what is deleted with the object
}

// naming says where an object's id comes from.
type naming uint8

const (
	byID       naming = iota // path or member id
	byUsername               // member username
	byPath                   // the path alone
)

// plugins says what the configurations in an object are of.
type plugins uint8

const (
	noPlugins     plugins = iota
	routePlugins          // what a route configures
	ownerPlugins          // what a consumer holds, or configures
	streamPlugins         // what a stream route configures
)

// A reference is a member that names another object.
type reference struct {
	path string // dotted
	kind model.Kind
	noun string // in the message
}

// A blocker is a kind whose objects may use another.
type blocker struct {
	by     model.Kind
	plugin string // that refers; empty: the object itself
	format string // of the message, with the user's id
}

func (r *resource) refuses(method string) bool { return slices.Contains(r.without, method) }

// resources is the table, by directory.
func resources() map[string]*resource {
	const post, patch = http.MethodPost, http.MethodPatch
	upstream := reference{"upstream_id", model.KindUpstream, "upstream"}
	service := reference{"service_id", model.KindService, "service"}
	innerCert := reference{"upstream.tls.client_cert_id", model.KindSSL, "ssl"}
	innerKey := [][]string{{"upstream", "tls", "client_key"}}
	rows := []*resource{
		{kind: model.KindRoute, plugins: routePlugins, keys: innerKey, filters: []string{"service_id", "upstream_id"},
			refs: []reference{innerCert, upstream, service, {"plugin_config_id", model.KindPluginConfig, "plugin config"}}},
		{kind: model.KindService, plugins: routePlugins, keys: innerKey, below: "graphql_cost_decorations", refs: []reference{innerCert, upstream},
			blockers: []blocker{
				{model.KindRoute, "", "can not delete this service directly, route [%s] is still using it now"},
				{model.KindStreamRoute, "", "can not delete this service directly, stream_route [%s] is still using it now"}}},
		{kind: model.KindUpstream, keys: [][]string{{"tls", "client_key"}}, refs: []reference{{"tls.client_cert_id", model.KindSSL, "ssl"}},
			blockers: upstreamBlockers()},
		{kind: model.KindConsumer, plugins: ownerPlugins, naming: byUsername, without: []string{post, patch}, below: "credentials",
			refs: []reference{{"group_id", model.KindConsumerGroup, "consumer group"}}},
		{kind: model.KindCredential, plugins: ownerPlugins, without: []string{post, patch}},
		{kind: model.KindConsumerGroup, plugins: routePlugins, without: []string{post},
			blockers: []blocker{{model.KindConsumer, "", "can not delete this consumer group, consumer [%s] is still using it now"}}},
		{kind: model.KindPluginConfig, plugins: routePlugins, without: []string{post},
			blockers: []blocker{{model.KindRoute, "", "can not delete this plugin config, route [%s] is still using it now"}}},
		{kind: model.KindGlobalRule, plugins: routePlugins, without: []string{post}},
		{kind: model.KindPluginMetadata, naming: byPath, without: []string{post, patch}},
		{kind: model.KindSSL, keys: [][]string{{"key"}, {"keys"}}},
		{kind: model.KindStreamRoute, plugins: streamPlugins, keys: innerKey, without: []string{patch}, filters: []string{"service_id", "upstream_id"},
			refs:     []reference{upstream, service, {"protocol.superior_id", model.KindStreamRoute, ""}},
			blockers: []blocker{{model.KindStreamRoute, "", "can not delete this stream route directly, stream route [%s] is still using it as superior_id"}}},
		{kind: model.KindProto, without: []string{patch},
			blockers: []blocker{
				{model.KindRoute, "grpc-transcode", "can not delete this proto, route [%s] is still using it now"},
				{model.KindService, "grpc-transcode", "can not delete this proto, service [%s] is still using it now"}}},
		{kind: model.KindSecret, without: []string{post}},
		{kind: model.KindCostDecoration},
	}
	table := make(map[string]*resource, len(rows))
	for _, r := range rows {
		table[r.kind.Dir()] = r
	}
	return table
}

// upstreamBlockers are in the order in which APISIX asks.
func upstreamBlockers() []blocker {
	var out []blocker
	const plugin, tail = "can not delete this upstream, plugin in ", " [%s] is still using it now"
	for _, k := range []model.Kind{model.KindRoute, model.KindService} {
		out = append(out,
			blocker{k, "traffic-split", plugin + k.String() + tail},
			blocker{k, "", "can not delete this upstream, " + k.String() + tail})
	}
	for _, k := range []struct {
		kind model.Kind
		noun string
	}{{model.KindPluginConfig, "plugin_config"}, {model.KindConsumer, "consumer"}, {model.KindConsumerGroup, "consumer_group"}, {model.KindGlobalRule, "global_rules"}} {
		out = append(out, blocker{k.kind, "traffic-split", plugin + k.noun + tail})
	}
	return out
}
