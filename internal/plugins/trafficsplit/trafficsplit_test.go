package trafficsplit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

// fleet makes upstreams and counts those that are open.
type fleet struct {
	open int
	docs []string
}

type fake struct {
	fleet *fleet
	doc   string
}

func (f *fake) Close() { f.fleet.open-- }

func (f *fleet) upstream(raw json.RawMessage) (plugin.Upstream, error) {
	if strings.Contains(string(raw), "broken") {
		return nil, errors.New(`property "type" validation failed: wrong type: expected string, got number`)
	}
	f.open++
	f.docs = append(f.docs, string(raw))
	return &fake{f, string(raw)}, nil
}

// a gate compiles configurations of one route.
type gate struct {
	*testing.T
	fleet
	keeper plugin.Keeper
}

func (g *gate) compile(conf string) (plugin.Phases, func(), error) {
	env := plugintest.Env(time.Now)
	env.Keep, env.Upstream = g.keeper.Uses(), g.upstream
	env.Exists = func(object string) bool { return object != "upstreams/gone" }
	ph, err := Plugin.Compile([]byte(conf), env)
	return ph, env.Keep.Release, err
}

// went says where a request goes.
func went(ph plugin.Phases, fields ...[2]string) string {
	c := plugintest.NewCtx("/?id=1", fields...)
	if reply := plugintest.Send(ph, c); reply != nil {
		return fmt.Sprint(reply.Status, " ", string(reply.Body))
	}
	if u, ok := c.To.Upstream.(*fake); ok {
		return "own " + u.doc
	}
	if c.To.UpstreamID != "" {
		return c.To.UpstreamID
	}
	return "route"
}

func count(n int, ph plugin.Phases, fields ...[2]string) map[string]int {
	m := map[string]int{}
	for range n {
		m[went(ph, fields...)]++
	}
	return m
}

func TestWeights(t *testing.T) {
	for conf, want := range map[string]string{
		`{}`:             "map[route:30]",
		`{"rules":[]}`:   "map[route:30]",
		`{"rules":[{}]}`: "map[route:30]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":1}]}]}`:                                                                        "map[1:30]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":2},{"weight":1}]}]}`:                                              "map[a:20 route:10]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":0},{"upstream_id":"b"}]}]}`:                                       "map[b:30]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":0},{"weight":0}]}]}`:                                              "map[a:15 route:15]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":0}]}]}`:                                                           "map[a:30]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":3},{"upstream_id":"b","weight":2},{"upstream_id":"c"}]}]}`:        "map[a:15 b:10 c:5]",
		`{"rules":[{"weighted_upstreams":[{"upstream_id":"gone"},{"weight":2}]}]}`:                                                      "map[500 failed to fetch upstream info by upstream id: gone:10 route:20]",
		`{"rules":[{"weighted_upstreams":[{"upstream":{"nodes":{"a:1":1},"checks":{},"retries":3,"pass_host":"node"}},{"weight":2}]}]}`: `map[own {"pass_host":"node","nodes":{"a:1":1}}:10 route:20]`,
	} {
		g := &gate{T: t}
		ph, release, err := g.compile(conf)
		if err != nil {
			t.Errorf("%s: %v", conf, err)
			continue
		}
		if got := fmt.Sprint(count(30, ph)); got != want {
			t.Errorf("%s: %s, want %s", conf, got, want)
		}
		release()
		if g.open != 0 || g.keeper.Len() != 0 {
			t.Errorf("%s: %d upstreams open, %d values kept", conf, g.open, g.keeper.Len())
		}
	}
}

// TestEven: turns of one weight are not taken in a row.
func TestEven(t *testing.T) {
	w := newWheel([]int{3, 1, 1})
	var turns strings.Builder
	for range 10 {
		fmt.Fprint(&turns, w.next())
	}
	if got := turns.String(); got != "0102001020" {
		t.Errorf("turns %s", got)
	}
}

func TestMatch(t *testing.T) {
	const conf = `{"rules":[
		{"match":[{"vars":[["http_release","==","new"]]},{"vars":[["arg_id","==","1"],["http_user","~~","^j"]]}],"weighted_upstreams":[{"upstream_id":"new"}]},
		{"match":[{"vars":[["http_release","==","old"]]}],"weighted_upstreams":[{"upstream_id":"old"}]},
		{"match":[{"vars":[["http_a","ipmatch",["10.0.0.0/8"]]]}],"weighted_upstreams":[{"upstream_id":"net"}]}]}`
	g := &gate{T: t}
	ph, release, err := g.compile(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, c := range []struct{ header, value, want string }{
		{"release", "new", "new"}, {"user", "jack", "new"}, {"user", "bob", "route"}, {"release", "old", "old"}, {"x", "y", "route"},
		{"a", "10.1.1.1", "net"}, {"a", "no address", "route"},
	} {
		if got := went(ph, [2]string{c.header, c.value}); got != c.want {
			t.Errorf("%s: %s goes to %s, want %s", c.header, c.value, got, c.want)
		}
	}
	ph, release, err = g.compile(`{"rules":[{"match":[{"vars":[["http_release","==","new"]]}],"weighted_upstreams":[{"upstream_id":"a"}]},{"weighted_upstreams":[{"upstream_id":"b"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got := went(ph); got != "b" {
		t.Errorf("without a match a rule holds: %s", got)
	}
}

// TestKept: turns and upstreams survive a change elsewhere.
func TestKept(t *testing.T) {
	const conf = `{"rules":[{"weighted_upstreams":[{"upstream_id":"a"},{"upstream":{"nodes":{"a:1":1}}},{"weight":1}]}]}`
	g := &gate{T: t}
	var releaseOld func()
	var all []string
	for range 6 {
		ph, release, err := g.compile(conf)
		if err != nil {
			t.Fatal(err)
		}
		if releaseOld != nil {
			releaseOld()
		}
		releaseOld = release
		all = append(all, went(ph))
	}
	if got := strings.Join(all, ", "); got != `a, own {"nodes":{"a:1":1}}, route, a, own {"nodes":{"a:1":1}}, route` {
		t.Errorf("went to %s", got)
	}
	if len(g.docs) != 2 { // checked as a whole, then what counts of it
		t.Errorf("compiled %d upstreams", len(g.docs))
	}
	releaseOld()
}

func TestInvalid(t *testing.T) {
	const rules = `property "rules" validation failed: `
	for conf, want := range map[string]string{
		`{"rules":{"a":1}}`:                                                              rules + `wrong type: expected array, got table`,
		`{"rules":[{"weighted_upstreams":[]}]}`:                                          rules + `failed to validate item 1: property "weighted_upstreams" validation failed: expect array to have at least 1 items`,
		`{"rules":[{"weighted_upstreams":[{"weight":-1}]}]}`:                             rules + `failed to validate item 1: property "weighted_upstreams" validation failed: failed to validate item 1: property "weight" validation failed: expected -1 to be at least 0`,
		`{"rules":[{},{"weighted_upstreams":[{"weight":1},{"upstream":{"broken":1}}]}]}`: rules + `failed to validate item 2: property "weighted_upstreams" validation failed: failed to validate item 2: property "upstream" validation failed: property "type" validation failed: wrong type: expected string, got number`,
		`{"rules":[{"match":[{"vars":"x"}]}]}`:                                           rules + `failed to validate item 1: property "match" validation failed: failed to validate item 1: property "vars" validation failed: wrong type: expected array, got string`,
		`{"rules":[{"match":[{"vars":[["arg_id","123","x"]]}]}]}`:                        `failed to validate the 'vars' expression: invalid operator '123'`,
		`{"rules":[{"match":[{}]}]}`:                                                     `failed to validate the 'vars' expression: missing argument rule`,
	} {
		g := &gate{T: t}
		_, release, err := g.compile(conf)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "failed to check the configuration of plugin traffic-split err: ")
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", conf, got, want)
		}
		if release(); g.open != 0 {
			t.Errorf("%s: %d upstreams stay open", conf, g.open)
		}
	}
}

func TestParallel(t *testing.T) {
	g := &gate{T: t}
	ph, release, err := g.compile(`{"rules":[{"weighted_upstreams":[{"upstream_id":"a","weight":3},{"weight":1}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var mu sync.Mutex
	total := map[string]int{}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			m := count(100, ph)
			mu.Lock()
			defer mu.Unlock()
			for k, n := range m {
				total[k] += n
			}
		})
	}
	wg.Wait()
	if fmt.Sprint(total) != "map[a:750 route:250]" {
		t.Error(total)
	}
}

func TestNoAllocation(t *testing.T) {
	g := &gate{T: t}
	ph, release, err := g.compile(`{"rules":[{"match":[{"vars":[["http_a","==","x"]]}],"weighted_upstreams":[{"upstream_id":"a","weight":3},{"upstream":{"nodes":{"a:1":1}}},{"weight":1}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c := plugintest.NewCtx("/", [2]string{"a", "x"})
	if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
