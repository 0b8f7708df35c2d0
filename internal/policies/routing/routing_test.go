package routing

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

// stays looks whether no upstream was chosen.
func stays(t *testing.T, c *plugin.Ctx) {
	t.Helper()
	if u := threescale.Of(c).Upstream; u != nil || c.To.Upstream != nil {
		t.Errorf("goes to %v", u)
	}
}

func when(operation string) string {
	return fmt.Sprintf(`{"rules":[{"url":"http://x.example:81/base","condition":{"operations":[%s]}}]}`, operation)
}

func TestOperations(t *testing.T) {
	goes := func(r plugintest.Request) plugintest.Request {
		r.Look = func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if c.To.Host != "x.example:81" {
				t.Errorf("goes to %q", c.To.Host)
			}
		}
		return r
	}
	remains := func(r plugintest.Request) plugintest.Request {
		r.Look = stays
		return r
	}
	type req = plugintest.Request
	token := func(claims string) func(*plugin.Ctx) {
		return func(c *plugin.Ctx) {
			token := &threescale.Token{}
			if err := json.Unmarshal([]byte(claims), &token.Claims); err != nil {
				panic(err)
			}
			threescale.Of(c).Token = token
		}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []req{remains(req{})}},
		{Name: "path", Config: when(`{"match":"path","op":"==","value":"/a"}`), Requests: []req{goes(req{Target: "/a?b"}), remains(req{Target: "/a/"})}},
		{Name: "path, not", Config: when(`{"match":"path","op":"!=","value":"/a"}`), Requests: []req{remains(req{Target: "/a"}), goes(req{Target: "/b"})}},
		{Name: "path, pattern", Config: when(`{"match":"path","op":"matches","value":"\\d{3}$"}`), Requests: []req{goes(req{Target: "/a/123"}), remains(req{Target: "/a/12"})}},
		{Name: "header", Config: when(`{"match":"header","header_name":"x-a","op":"==","value":1}`), Requests: []req{
			goes(req{Header: h{"X-A": "1"}}), remains(req{Header: h{"X-A": "2"}}), remains(req{}),
			remains(req{Fields: [][2]string{{"X-A", "1"}, {"X-A", "1"}}}),
		}},
		{Name: "header, not", Config: when(`{"match":"header","header_name":"X-A","op":"!=","value":"1"}`), Requests: []req{goes(req{}), remains(req{Header: h{"X-A": "1"}})}},
		{Name: "argument", Config: when(`{"match":"query_arg","query_arg_name":"a","op":"==","value":"1 2"}`), Requests: []req{
			goes(req{Target: "/?b&a=1+2"}), remains(req{Target: "/?a=1"}), remains(req{Target: "/?a=1+2&a=1+2"}), remains(req{}),
		}},
		{Name: "bare argument", Config: when(`{"match":"query_arg","query_arg_name":"a","op":"==","value":"true"}`), Requests: []req{goes(req{Target: "/?a"}), remains(req{Target: "/?a="})}},
		{Name: "claim", Config: when(`{"match":"jwt_claim","jwt_claim_name":"role","op":"==","value":"admin"}`), Requests: []req{
			goes(req{Before: token(`{"role":"admin"}`)}), remains(req{Before: token(`{"role":["admin"]}`)}), remains(req{Before: token(`{}`)}), remains(req{}),
		}},
		{Name: "claim that is a number", Config: when(`{"match":"jwt_claim","jwt_claim_name":"n","op":"==","value":"3"}`), Requests: []req{goes(req{Before: token(`{"n":3}`)})}},
		{Name: "template", Config: when(`{"match":"liquid","liquid_value":"{{ http_method }}","op":"==","value":"{{ headers.m }}","value_type":"liquid"}`), Requests: []req{
			goes(req{Method: "PUT", Header: h{"M": "PUT"}}), remains(req{Header: h{"M": "PUT"}}),
		}},
		{Name: "no operations", Config: `{"rules":[{"url":"http://x.example:81","condition":{}}]}`, Requests: []req{goes(req{})}},
		{Name: "and", Config: when(`{"match":"path","op":"==","value":"/a"},{"match":"header","header_name":"a","op":"==","value":"1"}`), Requests: []req{
			goes(req{Target: "/a", Header: h{"A": "1"}}), remains(req{Target: "/a"}),
		}},
		{Name: "or", Config: `{"rules":[{"url":"http://x.example:81","condition":{"combine_op":"or","operations":[{"match":"path","op":"==","value":"/a"},{"match":"header","header_name":"a","op":"==","value":"1"}]}}]}`, Requests: []req{
			goes(req{Target: "/a"}), goes(req{Header: h{"A": "1"}}), remains(req{}),
		}},
		{Name: "a rule without an upstream is left out", Config: `{"rules":[{"url":"nowhere","condition":{}},{"url":"http://x.example:81","condition":{}}]}`, Requests: []req{goes(req{})}},
		{Name: "no condition", Config: `{"rules":[{"url":"http://x"}]}`, Invalid: "condition"},
		{Name: "unknown match", Config: when(`{"match":"body","op":"==","value":"1"}`), Invalid: "match"},
		{Name: "no pattern", Config: when(`{"match":"path","op":"matches","value":"("}`), Invalid: "rules[0]"},
	})
}

func TestDestination(t *testing.T) {
	rule := func(url, more string) string {
		return fmt.Sprintf(`{"rules":[{"url":%q,"condition":{}%s}]}`, url, more)
	}
	asks := func(from, host, target string) []plugintest.Request {
		return []plugintest.Request{{Target: from, Look: threescaletest.Asks(host, target)}}
	}
	rewriting := threescaletest.Of(t, &model.Product{ID: "1", Upstream: "http://api.example", HostnameRewrite: "rewritten.example"})
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "as it is", Config: rule("http://x.example", ""), Requests: asks("/a%20b?c=+", "x.example", "/a%20b?c=+")},
		{Name: "path and query of the URL", Config: rule("http://x.example:80/base/?q=1", ""), Requests: asks("/a?c", "x.example", "/base/a?q=1")},
		{Name: "host header", Config: rule("http://x.example", `,"host_header":"h.example"`), Requests: asks("/", "h.example", "/")},
		{Name: "hostname rewrite", Product: rewriting, Config: rule("http://x.example", ""), Requests: asks("/", "rewritten.example", "/")},
		{Name: "host header before hostname rewrite", Product: rewriting, Config: rule("http://x.example", `,"host_header":"h.example"`), Requests: asks("/", "h.example", "/")},
		{Name: "another path", Config: rule("http://x.example", `,"replace_path":"{{ original_request.path | replace: 'a', 'b' }}-test"`), Requests: asks("/a/c?x=1", "x.example", "/b/c-test?x=1")},
		{Name: "below the URL's", Config: rule("http://x.example/base/", `,"replace_path":"{{ uri }}"`), Requests: asks("/a", "x.example", "/base/a")},
		{Name: "not escaped twice", Config: rule("http://x.example/base", `,"replace_path":"{{ original_request.path }}/100%/ü"`), Requests: asks("/test%20space", "x.example", "/base/test%20space/100%25/%C3%BC")},
		{Name: "with a query", Config: rule("http://x.example/base?q=1", `,"replace_path":"/n?z=1"`), Requests: asks("/a?x=1", "x.example", "/base/n?q=1")},
		{Name: "without a query", Config: rule("http://x.example/base?q=1", `,"replace_path":"/n"`), Requests: asks("/a?x=1", "x.example", "/base/n?x=1")},
		{Name: "nothing", Config: rule("http://x.example/base", `,"replace_path":"{{ none }}"`), Requests: asks("/a", "x.example", "/base")},
	})
}

func TestOwner(t *testing.T) {
	rule := func(metric, owner string, delta int64) *threescale.Rule {
		return &threescale.Rule{MappingRule: model.MappingRule{Metric: metric, Delta: delta, Owner: owner}}
	}
	counted := func(c *plugin.Ctx) {
		r := threescale.Of(c)
		r.Matched = append(r.Matched, rule("a", "1", 1), rule("b", "2", 2), rule("c", "", 4), rule("a", "2", 8))
		for _, m := range r.Matched {
			r.Usage.Add(m.Metric, m.Delta)
		}
	}
	counts := func(want ...threescale.Count) func(*testing.T, *plugin.Ctx) {
		return func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if got := threescale.Of(c).Usage; !slices.Equal(got, want) {
				t.Errorf("usage %v, want %v", got, want)
			}
		}
	}
	n := func(metric string, delta int64) threescale.Count {
		return threescale.Count{Metric: metric, Delta: delta}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "no owner", Config: `{"rules":[{"url":"http://x","condition":{}}]}`, Requests: []plugintest.Request{{Before: counted, Look: counts(n("a", 9), n("b", 2), n("c", 4))}}},
		{Name: "owner", Config: `{"rules":[{"url":"http://x","condition":{},"owner_id":1}]}`, Requests: []plugintest.Request{{Before: counted, Look: counts(n("a", 1), n("c", 4))}}},
	})
}

// TestLaterDecides: of several policies the last one has its way, its usage too.
func TestLaterDecides(t *testing.T) {
	var chain []plugin.Phases
	env := plugintest.Env(nil)
	p := threescaletest.Of(t, nil)
	env.Product = p
	for _, config := range []string{
		`{"rules":[{"url":"http://x","condition":{},"owner_id":1}]}`,
		`{"rules":[{"url":"http://y","condition":{"operations":[{"match":"path","op":"==","value":"/y"}]},"owner_id":2}]}`,
	} {
		ph, err := Policy.Compile([]byte(config), env)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, ph)
	}
	for path, want := range map[string]threescale.Usage{"/y": {{Metric: "b", Delta: 2}}, "/x": {{Metric: "a", Delta: 1}, {Metric: "b", Delta: 2}}} {
		c := plugintest.NewCtx(path)
		p.Begin(c)
		r := threescale.Of(c)
		r.Matched = []*threescale.Rule{
			{MappingRule: model.MappingRule{Metric: "a", Delta: 1, Owner: "1"}}, {MappingRule: model.MappingRule{Metric: "b", Delta: 2, Owner: "2"}},
		}
		r.Usage = threescale.Usage{{Metric: "a", Delta: 1}, {Metric: "b", Delta: 2}}
		for _, ph := range chain {
			ph.Access(c)
		}
		if !slices.Equal(r.Usage, want) || (r.Upstream != nil) != (path == "/y") {
			t.Errorf("%s: %v, %v", path, r.Usage, r.Upstream)
		}
		threescale.End(c)
	}
}
