package upstream

import (
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	asks := func(from, host, target string) plugintest.Request {
		return plugintest.Request{Target: from, Look: threescaletest.Asks(host, target)}
	}
	rewriting := threescaletest.Of(t, &model.Product{ID: "1", Upstream: "http://api.example", HostnameRewrite: "rewritten.example"})
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{asks("/a", "api.example", "/a")}},
		{Name: "rules", Config: `{"rules":[{"regex":"^/a","url":"http://a.example:81"},{"regex":"b$","url":"https://b.example/base"},{"regex":"^/a","url":"http://never"}]}`, Requests: []plugintest.Request{
			asks("/a?x", "a.example:81", "/a?x"), asks("/ab", "a.example:81", "/ab"), asks("/b", "b.example", "/base/b"), asks("/c", "api.example", "/c"),
		}},
		{Name: "no host rewrite", Product: rewriting, Config: `{"rules":[{"regex":"a","url":"http://a.example"}]}`, Requests: []plugintest.Request{
			asks("/a", "a.example", "/a"), asks("/", "rewritten.example", "/"),
		}},
		{Name: "rules that do not work are left out", Config: `{"rules":[{"regex":"a","url":"nowhere"},{"regex":"(","url":"http://x"},{"regex":"a","url":"http://a.example"}]}`, Requests: []plugintest.Request{asks("/a", "a.example", "/a")}},
		{Name: "no url", Config: `{"rules":[{"regex":"a"}]}`, Invalid: "url"},
	})
}

// TestEarlierWins: of two policies the one that stands first decides, and an
// upstream that was chosen before both.
func TestEarlierWins(t *testing.T) {
	env := plugintest.Env(time.Now)
	p := threescaletest.Of(t, nil)
	env.Product = p
	var chain []plugin.Phases
	for _, config := range []string{`{"rules":[{"regex":"^/a","url":"http://a"}]}`, `{"rules":[{"regex":"^/","url":"http://b"}]}`} {
		ph, err := Policy.Compile([]byte(config), env)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, ph)
	}
	for _, x := range []struct {
		path, want string
		own        bool
	}{{"/a", "a", false}, {"/b", "b", false}, {"/a", "api.example", true}} {
		c := plugintest.NewCtx(x.path)
		p.Begin(c)
		if x.own {
			threescale.Route(c)
		}
		for _, ph := range chain {
			ph.Rewrite(c)
		}
		for _, ph := range chain {
			ph.Access(c)
		}
		for _, ph := range chain {
			ph.Content(c)
		}
		if c.To.Host != x.want {
			t.Errorf("%+v: goes to %s", x, c.To.Host)
		}
		threescale.End(c)
	}
}
