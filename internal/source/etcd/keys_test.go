package etcd

import (
	"testing"

	"weir/internal/model"
)

func TestObjectKey(t *testing.T) {
	for _, k := range []model.Key{
		{Kind: model.KindRoute, ID: "1"}, {Kind: model.KindService, ID: "s"}, {Kind: model.KindUpstream, ID: "u"},
		{Kind: model.KindConsumer, ID: "jack"}, {Kind: model.KindCredential, ID: "jack/credentials/c1"},
		{Kind: model.KindConsumerGroup, ID: "g"}, {Kind: model.KindPluginConfig, ID: "p"},
		{Kind: model.KindGlobalRule, ID: "1"}, {Kind: model.KindPluginMetadata, ID: "http-logger"},
		{Kind: model.KindSSL, ID: "1"}, {Kind: model.KindStreamRoute, ID: "1"}, {Kind: model.KindProto, ID: "1"},
		{Kind: model.KindSecret, ID: "vault/1"}, {Kind: model.KindCostDecoration, ID: "s/graphql_cost_decorations/d"},
		{Kind: model.KindPlugins}, {Kind: model.KindConsumer, ID: "credentials"}, {Kind: model.KindRoute, ID: "a/b"},
	} {
		if got, ok := ObjectKey(k.String()); !ok || got != k {
			t.Errorf("%s: got %v %v", k, got, ok)
		}
	}
	for _, path := range []string{
		"", "/", "routes", "routes/", "gen_id", "plugins/", "plugins/x", "unknown/1", "data_plane/server_info/u",
		"consumers/", "consumers/jack/", "consumers/jack/credentials", "consumers/jack/credentials/",
		"consumers/jack/credentials/a/b", "consumers/jack/x/1", "consumers//credentials/1", "services/s/x/1",
		"credentials/1", "graphql_cost_decorations/1", "secrets/vault", "secrets/vault/1/2", "secrets//1", "secrets/vault/",
	} {
		if got, ok := ObjectKey(path); ok {
			t.Errorf("%q is no object, got %v", path, got)
		}
	}
}

func FuzzObjectKey(f *testing.F) {
	f.Add("routes/1")
	f.Add("consumers/jack/credentials/1")
	f.Fuzz(func(t *testing.T, path string) {
		if k, ok := ObjectKey(path); ok && k.String() != path {
			t.Fatalf("%q became %q", path, k)
		}
	})
}
