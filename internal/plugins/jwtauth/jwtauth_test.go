package jwtauth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

const secret = "my-secret-key"

// now is where plugintest's clock starts.
var now = time.Unix(1_000_000, 0).Unix()

// holding is a consumer with the credential that doc says.
func holding(tb testing.TB, consumer, doc string) *plugin.Consumer {
	tb.Helper()
	_, cred, err := Plugin.DecodeCredential([]byte(doc))
	if err != nil {
		tb.Fatal(err)
	}
	return &plugin.Consumer{Name: consumer, Credential: cred}
}

func known(tb testing.TB) plugintest.Consumers {
	tb.Helper()
	return plugintest.Consumers{
		{name, "k"}:              holding(tb, "jack", `{"key":"k","secret":"my-secret-key"}`),
		{name, "patient"}:        holding(tb, "patient", `{"key":"patient","secret":"my-secret-key","lifetime_grace_period":10}`),
		{name, "k\"é"}:           holding(tb, "odd", `{"key":"k\"é","secret":"my-secret-key"}`),
		{name, "b64"}:            holding(tb, "b64", `{"key":"b64","secret":"bXktc2VjcmV0LWtleQ==","base64_secret":true}`),
		{name, "hs512"}:          holding(tb, "hs512", `{"key":"hs512","secret":"my-secret-key","algorithm":"HS512"}`),
		{name, "unresolved"}:     holding(tb, "unresolved", `{"key":"unresolved","secret":"$ENV://MISSING"}`),
		{name, "$env://MISSING"}: holding(tb, "reference", `{"key":"$env://MISSING","secret":"my-secret-key"}`),
		{"", "anon"}:             {Name: "anon"},
	}
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// hs256 is a token with that payload.
func hs256(payload string) string {
	return sign(`{"typ":"JWT","alg":"HS256"}`, payload, hmacSigner("HS256", secret))
}

func refused(text, message string) plugintest.Request {
	return plugintest.Request{
		Header: h{"Authorization": text}, Status: 401, Body: `{"message":"` + message + `"}` + "\n",
		Reply: h{"WWW-Authenticate": `Bearer realm="jwt"`},
	}
}

func accepted(text, consumer string) plugintest.Request {
	return plugintest.Request{Header: h{"Authorization": text}, Consumer: consumer}
}

func TestPlaces(t *testing.T) {
	good, bad := hs256(`{"key":"k"}`), hs256(`{"key":"nobody"}`)
	const unknown = "Invalid user key in JWT token"
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "places", Config: `{}`, Consumers: known(t), Requests: []plugintest.Request{
			{Status: 401, Body: `{"message":"Missing JWT token in request"}`, Reply: h{"WWW-Authenticate": `Bearer realm="jwt"`}},
			{Header: h{"Authorization": good}, Consumer: "jack", Upstream: h{"Authorization": good}},
			accepted("Bearer "+good, "jack"), accepted("bearer "+good, "jack"), accepted("BEARER "+good, "jack"),
			{Query: h{"jwt": good}, Consumer: "jack", UpstreamTarget: "/?jwt=" + good},
			{Header: h{"Cookie": "a=b; jwt=" + good + "; c=d"}, Consumer: "jack"},
			{Header: h{"Authorization": bad}, Query: h{"jwt": good}, Status: 401, Body: unknown},
			{Query: h{"jwt": bad}, Header: h{"Cookie": "jwt=" + good}, Status: 401, Body: unknown},
		}},
		{Name: "names", Config: `{"header":"X_Token","query":"q","cookie":"c","key_claim_name":"iss","realm":"my realm"}`, Consumers: known(t), Requests: []plugintest.Request{
			{Header: h{"X-Token": hs256(`{"iss":"k","key":"nobody"}`)}, Consumer: "jack"},
			{Header: h{"x_token": hs256(`{"iss":"k"}`)}, Consumer: "jack"},
			{Query: h{"q": hs256(`{"iss":"k"}`)}, Consumer: "jack"},
			{Header: h{"Cookie": "c=" + hs256(`{"iss":"k"}`)}, Consumer: "jack"},
			{Header: h{"Authorization": good}, Status: 401, Body: "Missing", Reply: h{"WWW-Authenticate": `Bearer realm="my realm"`}},
		}},
		{Name: "no cookie", Config: `{"cookie":""}`, Consumers: known(t), Requests: []plugintest.Request{
			{Header: h{"Cookie": "=" + good}, Status: 401, Body: "Missing"},
		}},
		{Name: "hide", Config: `{"hide_credentials":true}`, Consumers: known(t), Requests: []plugintest.Request{
			{Header: h{"Authorization": "Bearer " + good, "Cookie": "jwt=x"}, Consumer: "jack", Gone: []string{"Authorization"}, Upstream: h{"Cookie": "jwt=x"}},
			{Target: "/p?a=1&jwt=" + good + "&b=2", Consumer: "jack", UpstreamTarget: "/p?a=1&b=2"},
			{Header: h{"Cookie": "hello=world;jwt=" + good + " ; foo=bar=;"}, Consumer: "jack", Upstream: h{"Cookie": "hello=world; foo=bar="}},
			{Fields: [][2]string{{"Cookie", "a=1; jwt=" + good}, {"cookie", "b"}}, Consumer: "jack", Upstream: h{"Cookie": "a=1; b"}},
			{Header: h{"Cookie": "jwt=" + good}, Consumer: "jack", Gone: []string{"Cookie"}},
		}},
		{Name: "anonymous", Config: `{"hide_credentials":true,"anonymous_consumer":"anon"}`, Consumers: known(t), Requests: []plugintest.Request{
			{Consumer: "anon"},
			{Header: h{"Authorization": bad}, Consumer: "anon", Gone: []string{"Authorization"}},
			{Header: h{"Authorization": good}, Consumer: "jack"},
		}},
		{Name: "no such anonymous", Config: `{"anonymous_consumer":"nobody"}`, Consumers: known(t), Requests: []plugintest.Request{
			{Status: 401, Body: `{"message":"Invalid user authorization"}`},
		}},
	})
}

func TestTokens(t *testing.T) {
	const malformed, noKey, unknown = "JWT token invalid", "missing user key in JWT token", "Invalid user key in JWT token"
	good := hs256(`{"key":"k"}`)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "form", Config: `{}`, Consumers: known(t), Requests: []plugintest.Request{
			refused(head+"=."+payload+"==."+signature+"=", "failed to verify jwt"), // other text than was signed
			accepted(good+"=", "jack"),
			refused("", malformed), refused(".", malformed), refused("..", malformed), refused("a.b.c", malformed),
			refused(head+"."+payload, malformed),
			refused(good+".", malformed),
			refused("x"+good, malformed),
			refused(encode(`[]`)+"."+payload+"."+signature, malformed),
			refused(head+"."+encode(`"k"`)+"."+signature, malformed),
			refused(head+"."+encode(`{"key":"k"`)+"."+signature, malformed),
			refused(hs256(`{}`), noKey),
			refused(hs256(`{"key":false}`), noKey),
			refused(hs256(`{"key":null}`), unknown),
			refused(hs256(`{"key":1}`), unknown),
			refused(hs256(`{"key":["k"]}`), unknown),
			refused(hs256(`{"Key":"k"}`), noKey),
			refused(hs256(`{"key":"nobody"}`), unknown),
			refused(hs256(`{"key":"$env://MISSING"}`), unknown),
			accepted(hs256(` {"a":{"key":"x"}, "key" : "k"}`), "jack"),
			accepted(hs256(`{"k\u0065y":"k\"\u00e9"}`), "odd"),
			accepted(hs256(`{"key":"b64"}`), "b64"),
		}},
	})
}

func TestSignatures(t *testing.T) {
	const failed = "failed to verify jwt"
	good := hs256(`{"key":"k"}`)
	unsigned := good[:strings.LastIndexByte(good, '.')+1]
	none := func(alg string) string {
		return encode(`{"alg":`+alg+`}`) + "." + encode(`{"key":"k"}`) + "."
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "forged", Config: `{}`, Consumers: known(t), Requests: []plugintest.Request{
			refused(unsigned, failed),
			refused(unsigned+"AAAA", failed),
			refused(unsigned+"@@@@", failed),
			refused(unsigned+good[len(unsigned):len(good)-2]+"AA", failed),
			refused(none(`"none"`), failed), refused(none(`"None"`), failed), refused(none(`""`), failed),
			refused(none(`null`), failed), refused(none(`1`), failed), refused(none(`12345`), failed),
			refused(encode(`{}`)+"."+encode(`{"key":"k"}`)+".", failed),
			refused(sign(`{"alg":"HS256"}`, `{"key":"k"}`, hmacSigner("HS256", "other")), failed),
			refused(sign(`{"alg":"HS256"}`, `{"key":"k"}`, hmacSigner("HS256", "")), failed),
			refused(sign(`{"alg":"HS512"}`, `{"key":"k"}`, hmacSigner("HS512", secret)), failed),
			refused(sign(`{"alg":"HS256"}`, `{"key":"hs512"}`, hmacSigner("HS256", secret)), failed),
			refused(sign(`{"alg":"HS512"}`, `{"key":"hs512"}`, hmacSigner("HS256", secret)), failed),
			accepted(sign(`{"alg":"HS512"}`, `{"key":"hs512"}`, hmacSigner("HS512", secret)), "hs512"),
			refused(sign(`{"alg":"HS256","crit":["exp"]}`, `{"key":"k"}`, hmacSigner("HS256", secret)), failed),
			refused(sign(`{"alg":"HS256"}`, `{"key":"unresolved"}`, hmacSigner("HS256", "$ENV://MISSING")), failed),
			refused(sign(`{"alg":"HS256"}`, `{"key":"b64"}`, hmacSigner("HS256", "bXktc2VjcmV0LWtleQ==")), failed),
		}},
	})
}

func TestClaims(t *testing.T) {
	const failed = "failed to verify jwt"
	at := func(key, claims string, args ...any) string {
		return hs256(fmt.Sprintf(`{"key":"`+key+`",`+claims+`}`, args...))
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "those that are there", Config: `{}`, Consumers: known(t), Requests: []plugintest.Request{
			accepted(hs256(`{"key":"k"}`), "jack"),
			accepted(at("k", `"exp":%d,"nbf":%d`, now+1, now), "jack"),
			refused(at("k", `"exp":%d`, now), failed),
			accepted(at("k", `"exp":%d.5`, now), "jack"),
			refused(at("k", `"nbf":%d`, now+1), failed),
			refused(at("k", `"exp":%d,"nbf":%d`, now+1, now+1), failed),
			accepted(at("k", `"exp":9916239022e3`), "jack"),
			refused(at("k", `"exp":"%d"`, now+1), failed),
			refused(at("k", `"exp":null`), failed), refused(at("k", `"nbf":true`), failed), refused(at("k", `"exp":{}`), failed),
			refused(at("k", `"exp":-1`), failed), refused(at("k", `"exp":1e999`), failed),
		}},
		{Name: "grace", Config: `{}`, Consumers: known(t), Requests: []plugintest.Request{
			accepted(at("patient", `"exp":%d,"nbf":%d`, now-9, now+10), "patient"),
			refused(at("patient", `"exp":%d`, now-10), failed),
			refused(at("patient", `"nbf":%d`, now+11), failed),
		}},
		{Name: "none named", Config: `{"claims_to_verify":[]}`, Consumers: known(t), Requests: []plugintest.Request{
			refused(at("k", `"exp":%d`, now), failed),
			accepted(hs256(`{"key":"k"}`), "jack"),
		}},
		{Name: "exp", Config: `{"claims_to_verify":["exp"]}`, Consumers: known(t), Requests: []plugintest.Request{
			refused(hs256(`{"key":"k"}`), failed),
			refused(at("k", `"exp":%d`, now), failed),
			accepted(at("k", `"exp":%d,"nbf":%d`, now+1, now+1), "jack"),
		}},
		{Name: "both", Config: `{"claims_to_verify":["nbf","exp"]}`, Consumers: known(t), Requests: []plugintest.Request{
			refused(at("k", `"exp":%d`, now+1), failed),
			refused(at("k", `"nbf":%d`, now), failed),
			accepted(at("k", `"exp":%d,"nbf":%d`, now+1, now), "jack"),
			func() plugintest.Request {
				r := refused(at("k", `"exp":%d,"nbf":%d`, now+5, now), failed)
				r.After = 5 * time.Second
				return r
			}(),
		}},
	})
}

// TestStoreInCtx: the payload outlives the plugin's own memory.
func TestStoreInCtx(t *testing.T) {
	for conf, want := range map[string]string{`{}`: "", `{"store_in_ctx":true}`: `{"key":"k"}`} {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", hs256(`{"key":"k"}`)})
		ctx.Index = known(t)
		if plugintest.Send(compiled(t, conf), ctx) != nil {
			t.Fatal("refused")
		}
		if got := string(ctx.Claims); got != want {
			t.Errorf("%s: %q, want %q", conf, got, want)
		}
	}
	ctx := plugintest.NewCtx("/", [2]string{"Authorization", hs256(`{"key":"k","exp":1}`)})
	ctx.Index = known(t)
	if plugintest.Send(compiled(t, `{"store_in_ctx":true,"anonymous_consumer":"anon"}`), ctx) != nil || ctx.Claims != nil {
		t.Errorf("claims of a token that failed: %s", ctx.Claims)
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "type", Config: `{"header":123}`, Invalid: `property "header" validation failed: wrong type: expected string, got number`},
		{Name: "claim", Config: `{"claims_to_verify":["iss"]}`, Invalid: `property "claims_to_verify" validation failed: failed to validate item 1: matches none of the enum values`},
		{Name: "claims", Config: `{"claims_to_verify":["exp","exp"]}`, Invalid: `property "claims_to_verify" validation failed`},
		{Name: "key claim", Config: `{"key_claim_name":""}`, Invalid: `property "key_claim_name" validation failed: string too short, expected at least 1, got 0`},
	})
}

func TestCredential(t *testing.T) {
	const prefix = "failed to check the configuration of plugin jwt-auth err: "
	const dependent = prefix + `failed to validate dependent schema for "algorithm": value should match only one schema, but matches none`
	for _, c := range []struct{ doc, key, want string }{
		{`{"key":"k","secret":"s"}`, "k", ""},
		{`{"key":"k","secret":"$secret://vault/1/k","base64_secret":true}`, "k", ""},
		{`{"key":"k","algorithm":"RS256","public_key":"somekey","private_key":"x"}`, "k", ""},
		{`{"key":"k","algorithm":"EdDSA","secret":"s","public_key":"$secret://vault/1/k"}`, "k", ""},
		{`{"key":123}`, "", prefix + `property "key" validation failed: wrong type: expected string, got number`},
		{`{"key":"","algorithm":"RS256","public_key":"k"}`, "", prefix + `property "key" validation failed: string too short, expected at least 1, got 0`},
		{`{"key":"k","secret":""}`, "", prefix + `property "secret" validation failed: string too short, expected at least 1, got 0`},
		{`{}`, "", prefix + `property "key" is required`},
		{`{"key":"k"}`, "", prefix + `property "secret" is required when using HS based algorithms`},
		{`{"key":"k","algorithm":"HS384"}`, "", prefix + `property "secret" is required when using HS based algorithms`},
		{`{"key":"k","secret":"a?","base64_secret":true}`, "", prefix + `base64_secret required but the secret is not in base64 format`},
		{`{"key":"k","algorithm":"RS256"}`, "", dependent},
		{`{"key":"k","algorithm":"PS256","secret":"s"}`, "", dependent},
		{`{"key":"k","algorithm":"none","secret":"s"}`, "", prefix + `property "algorithm" validation failed: matches none of the enum values`},
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
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(func() time.Time { return time.Unix(now, 0) }))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

// The HS algorithms allocate nothing; the others what crypto does.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	ph, consumers := compiled(t, `{}`), known(t)
	good := hs256(`{"key":"k","exp":9916239022}`)
	for what, ctx := range map[string]*plugin.Ctx{
		"header":    plugintest.NewCtx("/", [2]string{"Authorization", "Bearer " + good}),
		"query":     plugintest.NewCtx("/?jwt=" + good),
		"cookie":    plugintest.NewCtx("/", [2]string{"Cookie", "a=b; jwt=" + good}),
		"missing":   plugintest.NewCtx("/"),
		"malformed": plugintest.NewCtx("/?jwt=" + encode("{}")),
		"expired":   plugintest.NewCtx("/?jwt=" + hs256(`{"key":"k","exp":1}`)),
		"forged":    plugintest.NewCtx("/?jwt=" + good + "A"),
	} {
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

// FuzzToken: no text panics, and none authenticates but with a signature.
func FuzzToken(f *testing.F) {
	good := hs256(`{"key":"k","exp":9916239022}`)
	signature := good[strings.LastIndexByte(good, '.')+1:]
	f.Add(good)
	f.Add("Bearer a.b.c")
	f.Add(encode(`{"alg":"none"}`) + "." + encode(`{"key":"k"}`) + ".")
	f.Add(encode(`{"alg":"HS256"`) + "." + encode(`{"key":"\u`) + ".=")
	ph, consumers := compiled(f, `{}`), known(f)
	f.Fuzz(func(t *testing.T, text string) {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", text})
		ctx.Index = consumers
		if plugintest.Send(ph, ctx) == nil && !strings.Contains(text, strings.TrimRight(signature, "=")[:40]) {
			t.Errorf("%q authenticates %s", text, ctx.Consumer.Name)
		}
	})
}
