package multiauth

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

// inner makes a plugin that admits whoever sends the header of its name, and
// counts those that are open.
func inner(name, typ string, open *int) plugin.Spec {
	type config struct {
		Hide      bool   `json:"hide" schema:"default=false"`
		Anonymous string `json:"anonymous"`
	}
	return plugin.Define(plugin.Meta{Name: name, Type: typ}, func(c *config, env plugin.Env) (plugin.Phases, error) {
		*open++
		auth := plugin.NewAuthenticator(env, name, name+` realm="r"`, c.Anonymous)
		refusal := auth.Refusal("not by " + name)
		return plugin.Phases{
			Rewrite: func(r *plugin.Ctx) *plugin.Reply {
				var who *plugin.Consumer
				if key, ok := r.Header(name); ok {
					who = r.Find(name, key)
				}
				return auth.Admit(r, who, refusal)
			},
			Close: func() { *open-- },
		}, nil
	})
}

// disabled is a plugin as the plan compiles it when _meta.disable is set.
func disabled() plugin.Spec {
	type config struct{}
	return plugin.Define(plugin.Meta{Name: "disabled", Type: "auth"}, func(*config, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{}, nil
	})
}

func Test(t *testing.T) {
	open := 0
	specs := []plugin.Spec{inner("one", "auth", &open), inner("two", "auth", &open), inner("limit", "", &open), disabled()}
	known := plugintest.Consumers{
		{"one", "1"}: {Name: "jack"}, {"two", "2"}: {Name: "jill"}, {"", "anon"}: {Name: "anon"},
	}
	failed := plugintest.Request{Status: 401, Body: `{"message":"Authorization Failed"}` + "\n"}
	with := func(r plugintest.Request, header h) plugintest.Request {
		r.Header = header
		return r
	}
	cases := []plugintest.Case{
		{Name: "any", Config: `{"auth_plugins":[{"one":{}},{"two":{}}]}`, Requests: []plugintest.Request{
			failed,
			with(failed, h{"one": "2", "two": "1"}),
			{Header: h{"one": "1"}, Consumer: "jack", Reply: h{"WWW-Authenticate": ""}},
			{Header: h{"two": "2"}, Consumer: "jill", Reply: h{"WWW-Authenticate": ""}},
			{Header: h{"one": "no", "two": "2"}, Consumer: "jill"},
			{Header: h{"one": "1", "two": "2"}, Consumer: "jack"},
		}},
		{Name: "order", Config: `{"auth_plugins":[{"two":{}},{"one":{}}]}`, Requests: []plugintest.Request{
			{Header: h{"one": "1", "two": "2"}, Consumer: "jill"},
		}},
		{Name: "two in one", Config: `{"auth_plugins":[{"two":{},"one":{}},{"one":{}}]}`, Requests: []plugintest.Request{
			{Header: h{"one": "1", "two": "2"}, Consumer: "jack"},
			{Header: h{"two": "2"}, Consumer: "jill"},
		}},
		{Name: "anonymous", Config: `{"auth_plugins":[{"one":{"anonymous":"nobody"}},{"two":{"anonymous":"anon"}}]}`, Requests: []plugintest.Request{
			{Consumer: "anon"}, {Header: h{"one": "1"}, Consumer: "jack"},
		}},
		{Name: "disabled", Config: `{"auth_plugins":[{"disabled":{}},{"two":{}}]}`, Requests: []plugintest.Request{
			failed, {Header: h{"two": "2"}, Consumer: "jill"},
		}},
		{Name: "all disabled", Config: `{"auth_plugins":[{"disabled":{}},{"disabled":{}}]}`, Requests: []plugintest.Request{failed}},
		{Name: "nothing in it", Config: `{"auth_plugins":[{},{}]}`, Requests: []plugintest.Request{failed}},
		{Name: "absent", Config: `{}`, Invalid: `property "auth_plugins" is required`},
		{Name: "one", Config: `{"auth_plugins":[{"one":{}}]}`, Invalid: `property "auth_plugins" validation failed: expect array to have at least 2 items`},
		{Name: "unknown", Config: `{"auth_plugins":[{"one":{}},{"three":{}}]}`, Invalid: "err: three plugin did not found"},
		{Name: "no authentication", Config: `{"auth_plugins":[{"one":{}},{"limit":{}}]}`, Invalid: "err: limit plugin is not supported"},
		{Name: "inner", Config: `{"auth_plugins":[{"one":{}},{"two":{"hide":"false"}}]}`, Invalid: `err: plugin two check schema failed: property "hide" validation failed: wrong type: expected boolean, got string`},
		{Name: "text", Config: `{"auth_plugins":[{"one":{}},"two"]}`, Invalid: `failed to validate item 2: wrong type: expected object`},
	}
	for i := range cases {
		cases[i].Plugins, cases[i].Consumers = specs, known
	}
	plugintest.Run(t, Plugin, cases)
	if open != 0 {
		t.Errorf("%d inner plugins are still open", open)
	}
}

// TestChallenges: a refusal lists what would have been accepted.
func TestChallenges(t *testing.T) {
	open := 0
	env := plugintest.Env(time.Now)
	one := inner("one", "auth", &open)
	env.Plugin = func(string) (plugin.Meta, bool) { return one.Meta, true }
	env.Compile = func(name string, conf json.RawMessage) (plugin.Phases, error) {
		return inner(name, "auth", &open).Compile(conf, env)
	}
	ph, err := Plugin.Compile([]byte(`{"auth_plugins":[{"one":{}},{"two":{}}]}`), env)
	if err != nil {
		t.Fatal(err)
	}
	reply := plugintest.Send(ph, plugintest.NewCtx("/"))
	want := [][2]string{{"WWW-Authenticate", `one realm="r"`}, {"WWW-Authenticate", `two realm="r"`}}
	if reply == nil || !slices.Equal(reply.Header, want) {
		t.Errorf("got %v", reply)
	}
	ctx := plugintest.NewCtx("/", [2]string{"one", "1"})
	ctx.Index = plugintest.Consumers{{"one", "1"}: {Name: "jack"}}
	if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
		t.Errorf("accepting: %v allocations", n)
	}
	if ph.Close(); open != 0 {
		t.Errorf("%d open", open)
	}
}
