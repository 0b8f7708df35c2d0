package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// The policies of these tests: a guard and another, which break if told so, and
// one that answers for chains in which something is broken.
type policyConf struct {
	Break bool `json:"break"`
}

func testPolicy(name string, guard bool) plugin.Spec {
	return plugin.Define(plugin.Meta{Name: name, Guard: guard}, func(c *policyConf, _ plugin.Env) (plugin.Phases, error) {
		if c.Break {
			return plugin.Phases{}, errors.New("told to break")
		}
		return plugin.Phases{Rewrite: func(*plugin.Ctx) *plugin.Reply { return nil }}, nil
	})
}

func productApplier(t testing.TB, s threescale.Settings) *Applier {
	t.Helper()
	return loggedApplier(t, s, slog.DiscardHandler)
}

func loggedApplier(t testing.TB, s threescale.Settings, to slog.Handler) *Applier {
	t.Helper()
	log := slog.New(to)
	rt := threescale.NewRuntime(s, log, meter.New(0), time.Now)
	a := New(Config{Log: log, Products: Products{
		Policies: []plugin.Spec{testPolicy("apicast", true), testPolicy("other", false), testPolicy("on_failed", false)},
		Runtime:  rt,
	}})
	t.Cleanup(func() { a.Close(); rt.Close() })
	return a
}

// product is a delivered product; rest are more members of its proxy.
func product(id string, place int64, rest string) model.Object {
	raw := fmt.Sprintf(`{"service":{"id":%s,"proxy":{%s}}}`, id, rest)
	return model.Object{Key: model.Key{Kind: model.KindProduct, ID: id}, Created: place, Raw: []byte(raw)}
}

// found is the product that a request gets, and the status that answers it.
func found(s *Snapshot, host, target string) string {
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Host: host, Target: target}, Path: target}
	r := s.MatchProduct(c)
	switch {
	case r == nil:
		return "none"
	case r.Fault != 0:
		return fmt.Sprint(r.ID, " ", r.Fault)
	}
	return r.ID
}

func TestProductsByHost(t *testing.T) {
	a := productApplier(t, threescale.Settings{})
	a.ApplyProducts(model.Delta{Put: []model.Object{
		product("2", 20, `"hosts":["two.test","both.test"]`),
		product("1", 10, `"hosts":["One.test","both.test"]`),
	}})
	for host, want := range map[string]string{
		"one.test": "1", "ONE.test:8080": "1", "two.test": "2", "both.test": "1", "three.test": "none", "localhost": "none",
	} {
		if got := found(a.Current(), host, "/"); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	one := a.Current().MatchProduct(&plugin.Ctx{Request: &wire.Request{Host: "one.test"}})
	a.ApplyProducts(model.Delta{Put: []model.Object{
		product("1", 30, `"hosts":["One.test","both.test"]`), // it moved behind, its document is the same
		product("2", 20, `"hosts":["both.test"]`),
	}})
	if got := found(a.Current(), "both.test", "/"); got != "2" {
		t.Errorf("after the move: %s", got)
	}
	if found(a.Current(), "two.test", "/") != "none" {
		t.Error("a host that was given up still answers")
	}
	if a.Current().MatchProduct(&plugin.Ctx{Request: &wire.Request{Host: "one.test"}}) != one {
		t.Error("an unchanged product was compiled again")
	}
	if n := a.Work().Compiled["products"]; n != 3 {
		t.Errorf("%d products compiled, want 3", n)
	}
	a.ApplyProducts(model.Delta{Del: []model.Key{{Kind: model.KindProduct, ID: "2"}}})
	if got := found(a.Current(), "both.test", "/"); got != "1" {
		t.Errorf("after the deletion: %s", got)
	}
}

// Which product does not get a host that it has is logged when that begins.
func TestSharedHosts(t *testing.T) {
	var log bytes.Buffer
	to := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})
	a := loggedApplier(t, threescale.Settings{}, to)
	for _, step := range []struct {
		put  []model.Object
		del  string
		want string // lines: host, skipped, first
	}{
		{put: []model.Object{product("1", 10, `"hosts":["a","both"]`), product("2", 20, `"hosts":["both","b"]`), product("3", 30, `"hosts":["both"]`)},
			want: "both 2 1, both 3 1"},
		{put: []model.Object{product("2", 20, `"hosts":["both","b"],"secret_token":"new"`)}},                   // it was skipped before
		{put: []model.Object{product("1", 10, `"hosts":["a","a"]`)}},                                           // 2 takes over
		{put: []model.Object{product("1", 10, `"hosts":["a","both"]`)}, want: "both 2 1"},                      // and gives it back
		{put: []model.Object{product("1", 40, `"hosts":["a","both"]`)}, want: "both 1 2"},                      // moved behind
		{put: []model.Object{product("4", 50, `"hosts":["a"]`)}, del: "1", want: "a 4 1"},                      // deleted meanwhile
		{put: []model.Object{product("4", 50, `"hosts":["a"],"secret_token":"new"`)}},                          // alone now
		{put: []model.Object{product("5", 60, `"hosts":7`), product("6", 70, `"hosts":["A"]`)}, want: "a 6 4"}, // as it is written
	} {
		log.Reset()
		a.ApplyProducts(model.Delta{Put: step.put})
		if step.del != "" {
			a.ApplyProducts(model.Delta{Del: []model.Key{{Kind: model.KindProduct, ID: step.del}}})
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			if _, rest, found := strings.Cut(line, "skipping host "); found {
				words := strings.Fields(strings.Trim(rest, "\"\n"))
				got = append(got, words[0]+" "+words[3]+" "+words[8])
			}
		}
		if s := strings.Join(got, ", "); s != step.want {
			t.Errorf("%s: %q, want %q", step.put[0].Raw, s, step.want)
		}
	}
	log.Reset()
	a = loggedApplier(t, threescale.Settings{PathRouting: true}, to)
	a.ApplyProducts(model.Delta{Put: []model.Object{product("1", 1, `"hosts":["h"]`), product("2", 2, `"hosts":["h"]`)}})
	if strings.Contains(log.String(), "skipping") {
		t.Error(log.String())
	}
}

func TestProductsByPath(t *testing.T) {
	both := []model.Object{
		product("1", 1, `"hosts":["h"],"proxy_rules":[{"http_method":"GET","pattern":"/one","metric_system_name":"hits","delta":1}]`),
		product("2", 2, `"hosts":["h"],"proxy_rules":[{"http_method":"ANY","pattern":"/two/{x}$","metric_system_name":"hits","delta":1}]`),
	}
	for _, c := range []struct {
		settings threescale.Settings
		path     string
		want     string
	}{
		{threescale.Settings{}, "/two/x", "1"},
		{threescale.Settings{PathRouting: true}, "/two/x", "2"},
		{threescale.Settings{PathRouting: true}, "/one/more", "1"},
		{threescale.Settings{PathRouting: true}, "/three", "1"},
		{threescale.Settings{PathRoutingOnly: true}, "/three", "none"},
	} {
		a := productApplier(t, c.settings)
		a.ApplyProducts(model.Delta{Put: both})
		if got := found(a.Current(), "h", c.path); got != c.want {
			t.Errorf("%+v %s: %s, want %s", c.settings, c.path, got, c.want)
		}
	}
}

func TestBrokenProducts(t *testing.T) {
	chain := func(policies string) string { return `"hosts":["h"],"policy_chain":[` + policies + `]` }
	good := chain(`{"name":"other"}`)
	for _, c := range []struct {
		name, before, now, want string
		faulty                  bool
	}{
		{"a guard breaks", "", chain(`{"name":"apicast","configuration":{"break":true}}`), "1 503", true},
		{"another policy breaks", "", chain(`{"name":"other","configuration":{"break":true}},{"name":"apicast"}`), "1", true},
		{"nobody knows a policy", "", chain(`{"name":"mine"},{"name":"apicast"}`), "1 503", true},
		{"of another version", "", chain(`{"name":"other","version":"2"}`), "1 503", true},
		{"on_failed answers", "", chain(`{"name":"on_failed"},{"name":"mine"}`), "1", true},
		{"it cannot be read", "", `"hosts":["h"],"policy_chain":{}`, "1 503", true},
		{"the last good one stays", chain(`{"name":"apicast"}`), chain(`{"name":"apicast","configuration":{"break":true}}`), "1", true},
		{"unless it lacks the guard", good, chain(`{"name":"apicast","configuration":{"break":true}}`), "1 503", true},
		{"it cannot be read any more", good, `"hosts":["h"],"policy_chain":{}`, "1 503", true},
		{"nothing breaks", good, chain(`{"name":"apicast","version":"builtin"}`), "1", false},
	} {
		a := productApplier(t, threescale.Settings{})
		if c.before != "" {
			a.ApplyProducts(model.Delta{Put: []model.Object{product("1", 1, c.before)}})
		}
		a.ApplyProducts(model.Delta{Put: []model.Object{product("1", 1, c.now)}})
		if got := found(a.Current(), "h", "/"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if faulty := a.Current().Fault(model.Key{Kind: model.KindProduct, ID: "1"}) != nil; faulty != c.faulty {
			t.Errorf("%s: faulty %v", c.name, faulty)
		}
	}
}

// A source of products does not move the revision that writers of objects wait for.
func TestProductsLeaveTheRevision(t *testing.T) {
	a := productApplier(t, threescale.Settings{})
	a.Apply(model.Delta{Revision: 7})
	a.ApplyProducts(model.Delta{Revision: 3, Put: []model.Object{product("1", 1, `"hosts":["h"]`)}})
	if got := a.Current().Revision; got != 7 {
		t.Errorf("revision %d", got)
	}
	if n := len(slices.Collect(a.Current().Whole())); n != 0 {
		t.Errorf("%d objects in the saved state", n)
	}
}
