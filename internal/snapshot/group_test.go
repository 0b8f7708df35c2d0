package snapshot

import (
	"log/slog"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/limitcount"
	"weir/internal/upstream"
)

// TestMismatch: the members of a group are alike, until it is gone.
func TestMismatch(t *testing.T) {
	pools := upstream.NewPools()
	log := slog.New(slog.DiscardHandler)
	a := New(Config{Plugins: []plugin.Spec{limitcount.Plugin}, Upstream: upstream.Env{Pools: pools, Log: log}, Log: log})
	t.Cleanup(func() {
		a.Close()
		pools.Close()
	})
	b := &bench{Applier: a, t: t, live: new(live)}
	conf := func(members string) string { return `{"uri":"/a","plugins":{"limit-count":{` + members + `}}}` }
	const five = `"count":5,"time_window":60,"group":"g"`
	mismatch := func(path, doc string) string {
		if err := b.Current().Mismatch(model.Object{Key: keyOf(path), Raw: []byte(doc)}); err != nil {
			return err.Error()
		}
		return ""
	}
	const words = "failed to check the configuration of plugin limit-count err: group conf mismatched"
	b.put("routes/1", conf(five))
	for _, c := range []struct{ path, members, want string }{
		{"routes/2", five, ""},
		{"services/2", `"group":"g", "time_window":60, "count":5, "policy":"local", "_meta":{"priority":1}`, ""},
		{"routes/2", `"count":7,"time_window":60,"group":"g"`, words},
		{"consumers/jack", `"count":7,"time_window":60,"group":"g"`, words},
		{"routes/1", `"count":7,"time_window":60,"group":"g"`, words},
		{"routes/1", `"count":7,"time_window":60,"group":"h"`, ""},
		{"routes/1", `"count":7,"time_window":60`, ""},
		{"upstreams/1", `"count":7,"time_window":60,"group":"g"`, ""},
	} {
		if got := mismatch(c.path, conf(c.members)); got != c.want {
			t.Errorf("%s {%s}: got %q, want %q", c.path, c.members, got, c.want)
		}
	}
	b.del("routes/1")
	if got := mismatch("routes/2", conf(`"count":7,"time_window":60,"group":"g"`)); got != "" {
		t.Errorf("after the group is gone: %s", got)
	}
	// What comes from elsewhere is applied as it is, in whatever order.
	b.put("routes/1", conf(five), "routes/2", conf(`"count":7,"time_window":60,"group":"g"`))
	for path, err := range b.Current().Faults {
		t.Errorf("%s: %v", path, err)
	}
}
