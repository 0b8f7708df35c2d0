package keyauth

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

// the tests' consumers; "$ENV://MISSING" is what an unresolved reference leaves.
func known() plugintest.Consumers {
	return plugintest.Consumers{
		{name, "k1"}:             {Name: "jack"},
		{name, "a b+c"}:          {Name: "jill"},
		{name, ""}:               {Name: "empty"},
		{name, "$ENV://MISSING"}: {Name: "unresolved"},
		{"", "anon"}:             {Name: "anon"},
	}
}

func Test(t *testing.T) {
	const missing = `{"message":"Missing API key in request"}` + "\n"
	const invalid = `{"message":"Invalid API key in request"}` + "\n"
	challenge := h{"WWW-Authenticate": `apikey realm="key"`}
	refused := func(r plugintest.Request) plugintest.Request {
		r.Status, r.Body, r.Reply = 401, invalid, challenge
		return r
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "header or query", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			{Status: 401, Body: missing, Reply: challenge},
			refused(plugintest.Request{Header: h{"apikey": "no"}}),
			{Header: h{"apikey": "k1"}, Consumer: "jack", Upstream: h{"apikey": "k1"}},
			{Header: h{"APIKEY": "k1"}, Consumer: "jack"},
			{Query: h{"apikey": "k1"}, Consumer: "jack", UpstreamTarget: "/?apikey=k1"},
			{Target: "/?x=1&%61pikey=a%20b%2Bc&y", Consumer: "jill"},
			{Target: "/?apikey=a+b%2bc", Consumer: "jill"},
			refused(plugintest.Request{Query: h{"apikey": "no"}}),
			refused(plugintest.Request{Header: h{"apikey": "no"}, Query: h{"apikey": "k1"}}),
		}},
		{Name: "repeated", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			{Fields: [][2]string{{"apikey", "k1"}, {"apikey", "no"}}, Consumer: "jack"},
			refused(plugintest.Request{Fields: [][2]string{{"apikey", "no"}, {"apikey", "k1"}}}),
			refused(plugintest.Request{Target: "/?apikey=k1&apikey=k1"}),
			refused(plugintest.Request{Target: "/?apikey=k1&apikey"}),
		}},
		{Name: "empty", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			{Header: h{"apikey": ""}, Consumer: "empty"},
			{Target: "/?apikey=", Consumer: "empty"},
			refused(plugintest.Request{Target: "/?apikey"}),
		}},
		{Name: "empty, nobody's", Config: `{}`, Requests: []plugintest.Request{
			refused(plugintest.Request{Header: h{"apikey": ""}}),
			refused(plugintest.Request{Target: "/?apikey="}),
		}},
		{Name: "a reference is no key", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			refused(plugintest.Request{Header: h{"apikey": "$ENV://MISSING"}}),
			refused(plugintest.Request{Query: h{"apikey": "$ENV://MISSING"}}),
		}},
		{Name: "names", Config: `{"header":"X_Api_Key","query":"auth","realm":"my realm"}`, Consumers: known(), Requests: []plugintest.Request{
			{Header: h{"X-Api-Key": "k1"}, Consumer: "jack"},
			{Header: h{"x_api_key": "k1"}, Consumer: "jack"},
			{Query: h{"auth": "k1"}, Consumer: "jack"},
			{Header: h{"apikey": "k1"}, Status: 401, Body: missing, Reply: h{"WWW-Authenticate": `apikey realm="my realm"`}},
		}},
		{Name: "hide", Config: `{"hide_credentials":true}`, Consumers: known(), Requests: []plugintest.Request{
			{Header: h{"apikey": "k1"}, Consumer: "jack", Gone: []string{"apikey"}},
			{Fields: [][2]string{{"apikey", "k1"}, {"ApiKey", "x"}}, Consumer: "jack", Gone: []string{"apikey"}},
			{Header: h{"apikey": "k1"}, Query: h{"apikey": "x"}, Consumer: "jack", Gone: []string{"apikey"}, UpstreamTarget: "/?apikey=x"},
			{Target: "/p?b=%31&apikey=k1&a", Consumer: "jack", UpstreamTarget: "/p?b=%31&a"},
			{Target: "/p?apikey=k1", Consumer: "jack", UpstreamTarget: "/p"},
		}},
		{Name: "anonymous", Config: `{"anonymous_consumer":"anon"}`, Consumers: known(), Requests: []plugintest.Request{
			{Consumer: "anon", Reply: h{"WWW-Authenticate": ""}},
			{Header: h{"apikey": "no"}, Consumer: "anon", Upstream: h{"apikey": "no"}},
			{Header: h{"apikey": "k1"}, Consumer: "jack"},
		}},
		{Name: "anonymous, hide", Config: `{"anonymous_consumer":"anon","hide_credentials":true}`, Consumers: known(), Requests: []plugintest.Request{
			{Header: h{"apikey": "no"}, Query: h{"apikey": "no"}, Consumer: "anon", Gone: []string{"apikey"}, UpstreamTarget: "/"},
		}},
		{Name: "no such anonymous", Config: `{"anonymous_consumer":"nobody"}`, Consumers: known(), Requests: []plugintest.Request{
			{Status: 401, Body: `{"message":"Invalid user authorization"}` + "\n", Reply: challenge},
			{Header: h{"apikey": "k1"}, Consumer: "jack"},
		}},
	})
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "type", Config: `{"header":1}`, Invalid: `property "header" validation failed: wrong type: expected string, got number`},
		{Name: "realm", Config: `{"realm":"a\"b"}`, Invalid: `property "realm" validation failed: failed to match pattern "^[ -!#-[\\]-~]+$" with "a\"b"`},
		{Name: "empty realm", Config: `{"realm":""}`, Invalid: `property "realm" validation failed: string too short, expected at least 1, got 0`},
		{Name: "anonymous", Config: `{"anonymous_consumer":""}`, Invalid: `property "anonymous_consumer" validation failed: string too short, expected at least 1, got 0`},
	})
}

func TestCredential(t *testing.T) {
	for _, c := range []struct{ doc, key, want string }{
		{`{"key":"k"}`, "k", ""},
		{`{"key":"$secret://vault/1/k"}`, "$secret://vault/1/k", ""},
		{`{"key":123}`, "", `failed to check the configuration of plugin key-auth err: property "key" validation failed: wrong type: expected string, got number`},
		{`{}`, "", `failed to check the configuration of plugin key-auth err: property "key" is required`},
	} {
		key, _, err := Plugin.DecodeCredential([]byte(c.doc))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if key != c.key || got != c.want {
			t.Errorf("%s: got %q, %q; want %q, %q", c.doc, key, got, c.key, c.want)
		}
	}
}

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func TestNoAllocation(t *testing.T) {
	ph := compiled(t, `{}`)
	for what, ctx := range map[string]*plugin.Ctx{
		"header":  plugintest.NewCtx("/", [2]string{"accept", "*/*"}, [2]string{"apikey", "k1"}),
		"query":   plugintest.NewCtx("/?a=1&apikey=k1"),
		"refused": plugintest.NewCtx("/"),
		"wrong":   plugintest.NewCtx("/", [2]string{"apikey", "no"}),
	} {
		ctx.Index = known()
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	ph := compiled(b, `{}`)
	ctx := plugintest.NewCtx("/", [2]string{"accept", "*/*"}, [2]string{"apikey", "k1"})
	ctx.Index = known()
	b.ReportAllocs()
	for b.Loop() {
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
	}
}

// BenchmarkCredential is paid once per consumer when a configuration is loaded.
func BenchmarkCredential(b *testing.B) {
	raw := []byte(`{"key":"abcdefghijklmnop"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Plugin.DecodeCredential(raw); err != nil {
			b.Fatal(err)
		}
	}
}
