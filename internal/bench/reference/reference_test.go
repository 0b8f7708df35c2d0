package reference

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func good(d Doc) Object { return Object{Stored: true, Good: &d} }

func TestAsk(t *testing.T) {
	w := World{
		"upstreams/u":                  good(Doc{Node: 2}),
		"services/s":                   good(Doc{Node: 1, Mark: "service"}),
		"services/guarded":             good(Doc{Upstream: "upstreams/u", Guard: true}),
		"plugin_configs/p":             good(Doc{Mark: "config"}),
		"consumer_groups/g":            good(Doc{Mark: "group"}),
		"consumers/a":                  good(Doc{APIKey: "a", Group: "consumer_groups/g"}),
		"consumers/b":                  good(Doc{APIKey: "b", Mark: "b", Group: "consumer_groups/g"}),
		"consumers/b/credentials/1":    good(Doc{APIKey: "b1"}),
		"consumers/gone/credentials/1": good(Doc{APIKey: "left"}),

		"routes/plain":    good(Doc{Node: 3}),
		"routes/named":    good(Doc{Upstream: "upstreams/u", Mark: "route", PluginConfig: "plugin_configs/p", Service: "services/s"}),
		"routes/inherits": good(Doc{Service: "services/s"}),
		"routes/config":   good(Doc{Service: "services/s", PluginConfig: "plugin_configs/p"}),
		"routes/guarded":  good(Doc{Service: "services/guarded", Mark: "route"}),
		"routes/off":      good(Doc{Node: 1, Disabled: true}),
		"routes/bad":      {Stored: true, Broken: true},
		"routes/was":      {Stored: true, Broken: true, Good: &Doc{Node: 1}},
		"routes/shut":     {Stored: true, Broken: true, Shut: true, Good: &Doc{Node: 1}},
		LimitRoute:        good(Doc{Node: 1}),
	}
	for _, c := range []struct {
		route, key string
		want       Answer
	}{
		{"routes/none", "", Answer{Status: 404}},
		{"routes/plain", "", Answer{Status: 200, Node: 3}},
		{"routes/named", "", Answer{Status: 200, Node: 2, Mark: "route"}},
		{"routes/inherits", "", Answer{Status: 200, Node: 1, Mark: "service"}},
		{"routes/config", "", Answer{Status: 200, Node: 1, Mark: "config"}},
		{"routes/guarded", "", Answer{Status: 401}},
		{"routes/guarded", "x", Answer{Status: 401}},
		{"routes/guarded", "left", Answer{Status: 401}},
		{"routes/guarded", "a", Answer{Status: 200, Node: 2, Mark: "group"}},
		{"routes/guarded", "b", Answer{Status: 200, Node: 2, Mark: "b"}},
		{"routes/guarded", "b1", Answer{Status: 200, Node: 2, Mark: "b"}},
		{"routes/off", "", Answer{Status: 404}},
		{"routes/bad", "", Answer{Status: 404}},
		{"routes/was", "", Answer{Status: 200, Node: 1}},
		{"routes/shut", "", Answer{Status: 503}},
		{LimitRoute, "", Answer{Status: 200, Node: 1, Limit: DefaultLimitHeader}},
	} {
		if got := w.Ask(c.route, c.key); !got.Equal(c.want) {
			t.Errorf("%s with key %q: %v, want %v", c.route, c.key, got, c.want)
		}
	}
	w = w.With("global_rules/r_1", good(Doc{Mark: "m"})).With(LimitMetadata, good(Doc{Header: "X-L"}))
	want := Answer{Status: 200, Node: 1, Limit: "X-L", Globals: map[string]string{"X-Soak-Global-1": "m"}}
	if got := w.Ask(LimitRoute, ""); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if without := w.With("consumers/b", Object{}); len(without) != len(w)-2 || without.consumer("b1") != nil {
		t.Error("a consumer leaves its credentials")
	}
}

// Whatever is written, what runs refers only to what is there, every body is JSON,
// and refused writes change nothing.
func TestGenerator(t *testing.T) {
	g, w := New([]string{"n1", "n2", "n3"}, 1), World{}
	rng := rand.New(rand.NewPCG(1, 1))
	ops, status, answers := map[string]int{}, map[int]int{}, map[int]int{}
	for range 40000 {
		op := g.Next(w)
		kind, _, _ := strings.Cut(op.Key, "/")
		switch {
		case op.Body == "":
			kind += " deleted"
		case op.Direct:
			kind += " broken"
		}
		ops[kind]++
		status[op.Status]++
		if op.Body != "" && !json.Valid([]byte(op.Body)) {
			t.Fatalf("%s is no JSON", op.Body)
		}
		if op.Status != 200 && len(op.Next) != len(w) {
			t.Fatalf("%s is refused and changes something", op.Key)
		}
		w = op.Next
		a := w.Ask(g.Route(rng), g.APIKey(rng, w))
		answers[a.Status]++
		if a.Status == 200 && a.Node == 0 {
			t.Fatalf("a route that leads nowhere: %v", w)
		}
	}
	for _, kind := range []string{"routes", "services", "upstreams", "plugin_configs", "consumers", "consumer_groups", "global_rules", "plugin_metadata"} {
		if ops[kind] < 100 || ops[kind+" deleted"] < 20 {
			t.Errorf("%s: %d written, %d deleted", kind, ops[kind], ops[kind+" deleted"])
		}
	}
	for _, kind := range []string{"routes broken", "services broken", "upstreams broken", "plugin_configs broken", "consumer_groups broken", "global_rules broken"} {
		if ops[kind] < 20 {
			t.Errorf("%s: %d", kind, ops[kind])
		}
	}
	for _, s := range []int{200, 401, 404, 503} {
		if answers[s] < 20 {
			t.Errorf("status %d is expected %d times", s, answers[s])
		}
	}
	if status[400] < 100 || status[404] < 100 {
		t.Errorf("refusals: %v", status)
	}
}

func TestHistory(t *testing.T) {
	node := func(n int) World { return World{"routes/r": good(Doc{Node: n})} }
	h := NewHistory(node(1))
	allows := func(since, n int) bool {
		ok, _ := h.Allows(since, "routes/r", "", Answer{Status: 200, Node: n})
		return ok
	}
	first, _ := h.Now()
	h.Begin(node(2))
	if !allows(first, 1) || !allows(first, 2) || allows(first, 3) {
		t.Error("a write that is under way may be in force or not")
	}
	h.Acknowledge()
	second, w := h.Now()
	if !allows(first, 1) || allows(second, 1) || !allows(second, 2) || w.Ask("routes/r", "").Node != 2 {
		t.Error("an acknowledged write is in force")
	}
	for range 2 * kept {
		h.Begin(node(3))
		h.Acknowledge()
	}
	if now, _ := h.Now(); !allows(first, 9) || allows(now, 2) {
		t.Error("what is too old cannot be judged, what is new can")
	}
}
