package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMissing(t *testing.T) {
	a := newBench(t)
	const split = `"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":%s}]}]}`
	a.put(
		"routes/service", `{"uri":"/1","service_id":7}`,
		"routes/upstream", `{"uri":"/2","upstream_id":"7"}`,
		"routes/config", `{"uri":"/3","plugin_config_id":"7","upstream_id":"there"}`,
		"routes/split", `{"uri":"/4","upstream_id":"there","plugins":{`+fmt.Sprintf(split, `"7"`)+`}}`,
		"routes/off", `{"uri":"/5","upstream_id":"7","status":0}`,
		"routes/whole", `{"uri":"/6","upstream_id":"there","service_id":"whole","plugin_config_id":"whole"}`,
		"services/upstream", `{"upstream_id":"7"}`,
		"services/whole", `{"upstream_id":"there"}`,
		"upstreams/there", `{"nodes":{"127.0.0.1:1":1}}`,
		"plugin_configs/whole", `{"plugins":{}}`,
		"consumer_groups/whole", `{"plugins":{}}`,
		"global_rules/split", `{"plugins":{`+fmt.Sprintf(split, `"7"`)+`}}`,
		"stream_routes/upstream", `{"upstream_id":"7"}`,
		"stream_routes/service", `{"service_id":"7"}`,
		"consumers/jack", `{"username":"jack","group_id":"7"}`,
		"consumers/jill", `{"username":"jill","group_id":"whole"}`,
	)
	var got []string
	for path, err := range a.Current().Missing {
		got = append(got, path+": "+err.Error())
	}
	slices.Sort(got)
	want := []string{
		"consumers/jack: it refers to consumer_groups/7, which is not there",
		"routes/config: it refers to plugin_configs/7, which is not there",
		"routes/service: it refers to services/7, which is not there",
		"routes/split: it refers to upstreams/7, which is not there",
		"routes/upstream: it refers to upstreams/7, which is not there",
		"services/upstream: it refers to upstreams/7, which is not there",
		"stream_routes/service: it refers to services/7, which is not there",
		"stream_routes/upstream: it refers to upstreams/7, which is not there",
	}
	if got, want := strings.Join(got, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
