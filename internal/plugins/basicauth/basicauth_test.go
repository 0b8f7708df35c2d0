package basicauth

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

// holding is a consumer with that credential.
func holding(consumer, user, password string) *plugin.Consumer {
	return &plugin.Consumer{Name: consumer, Credential: &Credential{Username: user, Password: password}}
}

func known() plugintest.Consumers {
	return plugintest.Consumers{
		{name, "foo"}:    holding("jack", "foo", "bar"),
		{name, "colon"}:  holding("colon", "colon", "a:b:c"),
		{name, "spaces"}: holding("spaces", "spaces", "pass word "),
		{name, "a user"}: holding("a user", "a user", "x"),
		{name, "empty"}:  holding("empty", "empty", ""),
		{name, "secret"}: holding("unresolved", "secret", "$ENV://MISSING"),
		{"", "anon"}:     {Name: "anon"},
	}
}

// basic is the header's value for "user:password".
func basic(userinfo string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userinfo))
}

func Test(t *testing.T) {
	const missing = `{"message":"Missing authorization in request"}` + "\n"
	const invalid = `{"message":"Invalid authorization in request"}` + "\n"
	const unknown = `{"message":"Invalid user authorization"}` + "\n"
	challenge := h{"WWW-Authenticate": `Basic realm="basic"`}
	refused := func(value, body string) plugintest.Request {
		return plugintest.Request{Header: h{"Authorization": value}, Status: 401, Body: body, Reply: challenge}
	}
	accepted := func(value, consumer string) plugintest.Request {
		return plugintest.Request{Header: h{"Authorization": value}, Consumer: consumer, Upstream: h{"Authorization": value}}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "form", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			{Status: 401, Body: missing, Reply: challenge},
			accepted(basic("foo:bar"), "jack"),
			accepted("basic Zm9vOmJhcg==", "jack"),
			accepted("BASIC   Zm9vOmJhcg", "jack"),
			accepted("Basic\tZm9vOmJhcg= ", "jack"),
			refused("", invalid),
			refused("Basic", invalid),
			refused("Basic ", invalid),
			refused("BasicZm9vOmJhcg==", invalid),
			refused("Bad_header YmFyOmJhcgo=", invalid),
			refused("x Basic Zm9vOmJhcg==", invalid),
			refused("Basic aca_a", invalid),
			refused("Basic YmFy", invalid),
			refused("Basic Zm9vOmJhcg==,x", invalid),
		}},
		{Name: "password", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			refused(basic("foo:foo"), unknown),
			refused(basic("foo:"), unknown),
			refused(basic("foo:barr"), unknown),
			refused(basic("foo:xbar"), unknown),
			refused(basic("bar:bar"), unknown),
			refused(basic(":"), unknown),
			refused(basic("foo:bar\x00"), unknown),
			accepted(basic("foo:b ar\n"), "jack"),
			accepted(basic(" foo:bar"), "jack"),
			accepted(basic("foo:bar:more"), "jack"),
			accepted(basic("colon:a:b:c"), "colon"),
			refused(basic("colon:a"), unknown),
			accepted(basic("spaces:pass word "), "spaces"),
			accepted(basic("a user:x"), "a user"),
			accepted(basic("empty:"), "empty"),
			refused(basic("empty:x"), unknown),
			refused(basic("secret:$ENV://MISSING"), unknown),
		}},
		{Name: "repeated", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{
			{Fields: [][2]string{{"Authorization", basic("foo:bar")}, {"Authorization", "x"}}, Consumer: "jack"},
			{Fields: [][2]string{{"Authorization", "x"}, {"Authorization", basic("foo:bar")}}, Status: 401, Body: invalid},
		}},
		{Name: "hide", Config: `{"hide_credentials":true,"realm":"my realm"}`, Consumers: known(), Requests: []plugintest.Request{
			{Header: h{"Authorization": basic("foo:bar")}, Consumer: "jack", Gone: []string{"Authorization"}},
			{Header: h{"Authorization": "x"}, Status: 401, Reply: h{"WWW-Authenticate": `Basic realm="my realm"`}},
		}},
		{Name: "anonymous", Config: `{"hide_credentials":true,"anonymous_consumer":"anon"}`, Consumers: known(), Requests: []plugintest.Request{
			{Consumer: "anon", Reply: h{"WWW-Authenticate": ""}},
			{Header: h{"Authorization": basic("foo:no")}, Consumer: "anon", Gone: []string{"Authorization"}},
			{Header: h{"Authorization": basic("foo:bar")}, Consumer: "jack"},
		}},
		{Name: "no such anonymous", Config: `{"anonymous_consumer":"nobody"}`, Consumers: known(), Requests: []plugintest.Request{
			{Status: 401, Body: unknown, Reply: challenge},
		}},
		{Name: "nobody has an account", Config: `{}`, Requests: []plugintest.Request{refused(basic("foo:bar"), unknown)}},
	})
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "type", Config: `{"hide_credentials":"false"}`, Invalid: `property "hide_credentials" validation failed: wrong type: expected boolean, got string`},
		{Name: "realm", Config: `{"realm":"a\\"}`, Invalid: `property "realm" validation failed: failed to match pattern`},
		{Name: "anonymous", Config: `{"anonymous_consumer":""}`, Invalid: `property "anonymous_consumer" validation failed: string too short, expected at least 1, got 0`},
	})
}

func TestCredential(t *testing.T) {
	const prefix = "failed to check the configuration of plugin basic-auth err: "
	for _, c := range []struct{ doc, key, want string }{
		{`{"username":"foo","password":"bar"}`, "foo", ""},
		{`{"username":"foo","password":"$secret://vault/1/p"}`, "foo", ""},
		{`{"username":123,"password":"bar"}`, "", prefix + `property "username" validation failed: wrong type: expected string, got number`},
		{`{"username":"foo"}`, "", prefix + `property "password" is required`},
		{`{}`, "", prefix + `property "username" is required`},
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
	ph, consumers := compiled(t, `{}`), known()
	for what, value := range map[string]string{
		"accepted": basic("foo:bar"), "with spaces": basic("f oo:b ar"), "wrong": basic("foo:no"), "unknown": basic("no:no"), "malformed": "Basic a_",
	} {
		ctx := plugintest.NewCtx("/", [2]string{"accept", "*/*"}, [2]string{"Authorization", value})
		run := func() {
			ctx.Reset() // what is kept for a request is kept once
			ctx.Index = consumers
			plugintest.Send(ph, ctx)
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	ph, consumers := compiled(b, `{}`), known()
	ctx := plugintest.NewCtx("/", [2]string{"accept", "*/*"}, [2]string{"Authorization", basic("foo:bar")})
	b.ReportAllocs()
	for b.Loop() {
		ctx.Reset()
		ctx.Index = consumers
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
	}
}

// FuzzHeader: no text panics, and none authenticates but with the password.
func FuzzHeader(f *testing.F) {
	f.Add("Basic Zm9vOmJhcg==")
	f.Add("basic  Zm9vOmJhcg")
	f.Add("Basic ====")
	ph := compiled(f, `{}`)
	consumers := plugintest.Consumers{{name, "foo"}: holding("jack", "foo", "bar")}
	f.Fuzz(func(t *testing.T, value string) {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", value})
		ctx.Index = consumers
		if plugintest.Send(ph, ctx) != nil {
			return
		}
		text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.Trim(value[len("basic"):], " \t"), "="))
		user, password, _ := strings.Cut(strings.Join(strings.Fields(string(text)), ""), ":")
		password, _, _ = strings.Cut(password, ":")
		if err != nil || user != "foo" || password != "bar" {
			t.Errorf("%q authenticates", value)
		}
	})
}
