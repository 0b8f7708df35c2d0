package reference

import (
	"encoding/json"
	"fmt"
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
		if got := w.Ask(Question{Object: c.route, Route: c.route, APIKey: c.key}); !got.Equal(c.want) {
			t.Errorf("%s with key %q: %v, want %v", c.route, c.key, got, c.want)
		}
	}
	w = w.With("global_rules/r_1", good(Doc{Mark: "m"})).With(LimitMetadata, good(Doc{Header: "X-L"}))
	want := Answer{Status: 200, Node: 1, Limit: "X-L", Globals: map[string]string{"X-Soak-Global-1": "m"}}
	if got := w.Ask(Question{Object: LimitRoute, Route: LimitRoute}); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.With(PluginList, good(Doc{Unlimited: true})).Ask(Question{Object: LimitRoute, Route: LimitRoute}); got.Status != 503 {
		t.Errorf("a route whose limit is not enabled: %v", got)
	}
	if without := w.With("consumers/b", Object{}); len(without) != len(w)-2 || without.consumer("b1") != nil {
		t.Error("a consumer leaves its credentials")
	}
}

func TestAskElsewhere(t *testing.T) {
	w := World{
		"upstreams/u":                           good(Doc{Node: 2}),
		"services/s":                            good(Doc{Upstream: "upstreams/u"}),
		"services/s/graphql_cost_decorations/d": good(Doc{}),
		"protos/p":                              good(Doc{Field: "f"}),
		"routes/plain":                          good(Doc{Node: 3}),
		"routes/c_call":                         good(Doc{Node: 1, Proto: "protos/p"}),
		"routes/lost_call":                      good(Doc{Node: 1, Proto: "protos/q"}),
		"ssls/own":                              good(Doc{Certificate: 2}),
		"ssls/off":                              good(Doc{Certificate: 2, Disabled: true}),
		AnySSL:                                  good(Doc{Certificate: 1}),
		"stream_routes/node":                    good(Doc{Node: 1}),
		"stream_routes/service":                 good(Doc{Service: "services/s"}),
		"stream_routes/nowhere":                 good(Doc{Upstream: "upstreams/gone"}),
		"stream_routes/refuses":                 good(Doc{Node: 1, Refuses: true}),
		"stream_routes/shut":                    {Stored: true, Broken: true, Shut: true, Good: &Doc{Node: 1}},
		"stream_routes/still":                   {Stored: true, Broken: true, Good: &Doc{Node: 1}},
		"secrets/vault/v":                       good(Doc{}),
	}
	const plain = "routes/plain"
	for _, c := range []struct {
		q    Question
		want Answer
	}{
		{Question{Object: "routes/c_call", Route: "routes/c_call"}, Answer{Status: 200, Node: 1, Field: "f"}},
		{Question{Object: "routes/lost_call", Route: "routes/lost_call"}, Answer{Status: 503}},
		{Question{Object: "ssls/own", Route: plain}, Answer{Status: 200, Node: 3, Certificate: 2}},
		{Question{Object: "ssls/off", Route: plain}, Answer{Status: 200, Node: 3, Certificate: 1}},
		{Question{Object: "ssls/none", Route: "routes/none"}, Answer{Status: 404, Certificate: 1}},
		{Question{Object: "stream_routes/node"}, Answer{Status: 200, Node: 1}},
		{Question{Object: "stream_routes/service"}, Answer{Status: 200, Node: 2}},
		{Question{Object: "stream_routes/still"}, Answer{Status: 200, Node: 1}},
		{Question{Object: "stream_routes/nowhere"}, Answer{}},
		{Question{Object: "stream_routes/refuses"}, Answer{}},
		{Question{Object: "stream_routes/shut"}, Answer{}},
		{Question{Object: "stream_routes/none"}, Answer{}},
		{Question{Object: "secrets/vault/v", Stored: true}, Answer{Status: 200}},
		{Question{Object: "secrets/vault/w", Stored: true}, Answer{Status: 404}},
	} {
		if got := w.Ask(c.q); !got.Equal(c.want) {
			t.Errorf("%v: %v, want %v", c.q, got, c.want)
		}
	}
	if got := w.With(AnySSL, Object{}).Ask(Question{Object: "ssls/none", Route: plain}); !got.Equal(Answer{}) {
		t.Errorf("a name without a certificate: %v", got)
	}
	if without := w.With("services/s", Object{}); len(without) != len(w)-2 {
		t.Error("a service leaves its cost decorations")
	}
	if users := w.users("upstreams/u"); len(users) != 1 {
		t.Errorf("an upstream is kept by %v", users)
	}
}

// Whatever is written, what runs refers only to what is there, every body is JSON,
// and refused writes change nothing.
func TestGenerator(t *testing.T) {
	g, w := New(Origins{Nodes: []string{"n1", "n2", "n3"}, Pairs: make([]Pair, 3), Ports: make([]int, StreamRoutes)}, 1), World{}
	rng := rand.New(rand.NewPCG(1, 1))
	ops, status, answers := map[string]int{}, map[int]int{}, map[string]int{}
	for range 40000 {
		op := g.Next(w)
		kind, _, _ := strings.Cut(op.Key, "/")
		switch {
		case op.Body == "":
			kind += " deleted"
		case op.Direct && op.Next[op.Key].Broken:
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
		q := g.Ask(rng, w)
		a := w.Ask(q)
		what, _, _ := strings.Cut(q.Object, "/")
		if q.Stored {
			what = "stored"
		}
		answers[fmt.Sprint(what, " ", a.Status)]++
		if a.Status == 200 && a.Node == 0 && !q.Stored {
			t.Fatalf("a route that leads nowhere: %v", w)
		}
	}
	for _, kind := range []string{"routes", "services", "upstreams", "plugin_configs", "consumers", "consumer_groups", "global_rules", "plugin_metadata",
		"ssls", "stream_routes", "protos", "secrets", "plugins"} {
		if ops[kind] < 100 || ops[kind+" deleted"] < 20 {
			t.Errorf("%s: %d written, %d deleted", kind, ops[kind], ops[kind+" deleted"])
		}
	}
	for _, kind := range []string{"routes broken", "services broken", "upstreams broken", "plugin_configs broken", "consumer_groups broken", "global_rules broken",
		"ssls broken", "stream_routes broken", "protos broken"} {
		if ops[kind] < 20 {
			t.Errorf("%s: %d", kind, ops[kind])
		}
	}
	for _, s := range []string{
		"routes 200", "routes 401", "routes 404", "routes 503", "ssls 200", "ssls 0", "stream_routes 200", "stream_routes 0", "stored 200", "stored 404",
	} {
		if answers[s] < 20 {
			t.Errorf("%s is expected %d times: %v", s, answers[s], answers)
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
		ok, _ := h.Allows(since, Question{Object: "routes/r", Route: "routes/r"}, Answer{Status: 200, Node: n})
		return ok
	}
	first, _ := h.Now()
	h.Begin(node(2))
	if !allows(first, 1) || !allows(first, 2) || allows(first, 3) {
		t.Error("a write that is under way may be in force or not")
	}
	h.Acknowledge()
	second, w := h.Now()
	if !allows(first, 1) || allows(second, 1) || !allows(second, 2) || w.Ask(Question{Object: "routes/r", Route: "routes/r"}).Node != 2 {
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
