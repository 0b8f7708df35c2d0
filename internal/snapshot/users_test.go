package snapshot

import (
	"log/slog"
	"slices"
	"testing"

	"weir/internal/model"
)

func TestUsers(t *testing.T) {
	a := New(Config{Log: slog.New(slog.DiscardHandler)})
	defer a.Close()
	put := func(kind model.Kind, id, raw string) model.Object {
		return model.Object{Key: model.Key{Kind: kind, ID: id}, Raw: []byte(raw), Created: 1, Modified: 1}
	}
	a.Apply(model.Delta{Revision: 1, Put: []model.Object{
		put(model.KindRoute, "r1", `{"uri":"/","service_id":"1","upstream_id":2,"plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"3"},{"upstream_id":3}]}]}}}`),
		put(model.KindRoute, "r2", `{"uri":"/1","plugin_config_id":1,"plugins":{"grpc-transcode":{"proto_id":"1"}}}`),
		put(model.KindRoute, "broken", `{"service_id":`),
		put(model.KindService, "s", `{"upstream_id":"2"}`),
		put(model.KindConsumer, "jack", `{"username":"jack","group_id":"g","plugins":{}}`),
		put(model.KindStreamRoute, "st", `{"service_id":"1","protocol":{"superior_id":"2"}}`),
		put(model.KindGlobalRule, "gr", `{"plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":3}]}]}}}`),
	}})
	for _, tc := range []struct {
		of   model.Key
		want []string
	}{
		{model.Key{Kind: model.KindService, ID: "1"}, []string{"routes/r1 ", "stream_routes/st "}},
		{model.Key{Kind: model.KindUpstream, ID: "2"}, []string{"routes/r1 ", "services/s "}},
		{model.Key{Kind: model.KindUpstream, ID: "3"}, []string{"global_rules/gr traffic-split", "routes/r1 traffic-split"}},
		{model.Key{Kind: model.KindPluginConfig, ID: "1"}, []string{"routes/r2 "}},
		{model.Key{Kind: model.KindProto, ID: "1"}, []string{"routes/r2 grpc-transcode"}},
		{model.Key{Kind: model.KindConsumerGroup, ID: "g"}, []string{"consumers/jack "}},
		{model.Key{Kind: model.KindStreamRoute, ID: "2"}, []string{"stream_routes/st "}},
		{model.Key{Kind: model.KindSSL, ID: "1"}, nil},
		{model.Key{Kind: model.KindUpstream}, nil},
	} {
		var got []string
		for _, u := range a.Current().Users(tc.of) {
			got = append(got, u.By.String()+" "+u.Plugin)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.of, got, tc.want)
		}
	}
}
