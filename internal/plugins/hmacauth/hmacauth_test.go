package hmacauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

const (
	date    = "Mon, 12 Jan 1970 13:46:40 GMT" // where plugintest's clock starts
	invalid = `{"message":"client request can't be validated"}` + "\n"
)

func known() plugintest.Consumers {
	holding := func(consumer, id, key string) *plugin.Consumer {
		return &plugin.Consumer{Name: consumer, Credential: &Credential{KeyID: id, SecretKey: key}}
	}
	return plugintest.Consumers{
		{name, "id"}:     holding("jack", "id", "key"),
		{name, "secret"}: holding("unresolved", "secret", "$env://MISSING"),
		{"", "anon"}:     {Name: "anon"},
	}
}

// signature is the base64 of the HMAC of the lines, each ended by a line feed.
func signature(algorithm int, key string, lines ...string) string {
	m := hmac.New(algorithms[algorithm].hash, []byte(key))
	m.Write([]byte(strings.Join(lines, "\n") + "\n"))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// signed is the header of a request whose listed lines are signed by jack.
func signed(headers string, lines ...string) string {
	return fmt.Sprintf(`Signature keyId="id",algorithm="hmac-sha256",headers="%s",signature="%s"`,
		headers, signature(1, "key", append([]string{"id"}, lines...)...))
}

func request(authorization string, header h) plugintest.Request {
	r := plugintest.Request{Header: h{"Authorization": authorization, "Date": date}, Target: "/hello"}
	for k, v := range header {
		if r.Header[k] = v; v == "" {
			delete(r.Header, k)
		}
	}
	return r
}

func accepted(r plugintest.Request) plugintest.Request {
	r.Consumer = "jack"
	return r
}

func refused(r plugintest.Request) plugintest.Request {
	r.Status, r.Body, r.Reply = 401, invalid, h{"WWW-Authenticate": `hmac realm="hmac"`}
	return r
}

func after(d time.Duration, r plugintest.Request) plugintest.Request {
	r.After = d
	return r
}

func Test(t *testing.T) {
	simple := signed("@request-target date", "GET /hello", "date: "+date)
	field := func(format string, args ...any) string { return "Signature " + fmt.Sprintf(format, args...) }
	sum := signature(1, "key", "id", "date: "+date)
	known := known()
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "form", Config: `{}`, Consumers: known, Requests: []plugintest.Request{
			accepted(request(simple, nil)),
			{Status: 401, Body: `{"message":"client request can't be validated: missing Authorization header"}`, Reply: h{"WWW-Authenticate": `hmac realm="hmac"`}},
			{Header: h{"Authorization": "Basic x"}, Status: 401, Body: `{"message":"client request can't be validated: Authorization header does not start with 'Signature'"}`},
			refused(request("Signature", nil)),
			accepted(request(strings.Replace(simple, "Signature ", "Signature\t ", 1), nil)),
			accepted(request(field(`headers="date" , signature="%s" , keyId="id" , algorithm="hmac-sha256"`, sum), nil)),
			accepted(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-sha256",other="x",broken=`, strings.TrimRight(sum, "=")), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="id"`, sum), nil)),
			refused(request(field(`headers="date",signature="%s",algorithm="hmac-sha256"`, sum), nil)),
			refused(request(field(`headers="date",keyId="id",algorithm="hmac-sha256"`), nil)),
			refused(request(field(`headers="date",signature="",keyId="id",algorithm="hmac-sha256"`), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-sha256"`, strings.Repeat("A", 1000)), nil)),
			refused(request(field(`headers="date",signature="?",keyId="id",algorithm="hmac-sha256"`), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="nobody",algorithm="hmac-sha256"`, sum), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-md5"`, sum), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-sha1"`, sum), nil)),
			refused(request(field(`signature="%s",keyId="id",algorithm="hmac-sha256"`, signature(1, "key", "id")), nil)),
			refused(request(field(`headers="date",signature="%s",keyId="secret",algorithm="hmac-sha256"`, signature(1, "$env://MISSING", "secret", "date: "+date)), nil)),
		}},
		{Name: "what is signed", Config: `{}`, Consumers: known, Requests: []plugintest.Request{
			refused(request(simple, h{"Date": "Mon, 12 Jan 1970 13:46:41 GMT"})),
			refused(plugintest.Request{Header: h{"Authorization": simple, "Date": date}, Target: "/other"}),
			refused(plugintest.Request{Header: h{"Authorization": simple, "Date": date}, Target: "/hello", Method: "POST"}),
			accepted(request(signed("date x-a X-B", "date: "+date, "x-a: 1, 2", "X-B: b"), h{"X-A": "1, 2", "x-b": "b"})),
			refused(request(signed("date x-a", "date: "+date, "x-a: 1"), h{"x-a": "2"})),
			refused(request(signed("date x-a", "date: "+date, "x-a: 1"), nil)),
			accepted(request(signed("date x-a", "date: "+date), nil)), // what is not there cannot be signed
			accepted(request(signed("date  x-a", "date: "+date, "x-a: 1"), h{"x-a": "1"})),
			accepted(plugintest.Request{
				Header: h{"Authorization": signed("@request-target date host", "GET /hello?a=1&b", "date: "+date, "host: example.com"), "Date": date},
				Target: "/hello?a=1&b",
			}),
			refused(plugintest.Request{
				Fields: [][2]string{{"Authorization", signed("date x-a", "date: "+date, "x-a: 1")}, {"Date", date}, {"X-A", "1"}, {"x-a", "2"}},
			}),
		}},
		{Name: "clock", Config: `{"clock_skew":2}`, Consumers: known, Requests: []plugintest.Request{
			accepted(request(simple, nil)),
			refused(request(simple, h{"Date": ""})),
			refused(request(simple, h{"Date": "adfa"})),
			refused(request(signed("date", "date: 1000000"), h{"Date": "1000000"})),
			accepted(request(signed("date", "date: Mon Jan 12 13:46:42 1970"), h{"Date": "Mon Jan 12 13:46:42 1970"})),
			refused(request(signed("date", "date: Monday, 12-Jan-70 13:46:43 GMT"), h{"Date": "Monday, 12-Jan-70 13:46:43 GMT"})),
			accepted(after(2900*time.Millisecond, request(simple, nil))),
			refused(after(100*time.Millisecond, request(simple, nil))),
		}},
		{Name: "required", Config: `{"signed_headers":["date","x-a"]}`, Consumers: known, Requests: []plugintest.Request{
			accepted(request(signed("x-a date", "x-a: 1", "date: "+date), h{"x-a": "1"})),
			refused(request(signed("date", "date: "+date), h{"x-a": "1"})),
			refused(request(signed("date X-A", "date: "+date, "X-A: 1"), h{"x-a": "1"})),
		}},
		{Name: "nothing required", Config: `{"signed_headers":[]}`, Consumers: known, Requests: []plugintest.Request{
			accepted(request(signed("@request-target", "GET /hello"), nil)),
			accepted(request(signed(""), nil)),
			refused(request(signed("@request-target", "GET /hello"), h{"Date": ""})),
		}},
		{Name: "allowed", Config: `{"allowed_algorithms":["hmac-sha512"]}`, Consumers: known, Requests: []plugintest.Request{
			refused(request(simple, nil)),
			accepted(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-sha512"`, signature(2, "key", "id", "date: "+date)), nil)),
		}},
		{Name: "sha1", Config: `{}`, Consumers: known, Requests: []plugintest.Request{
			accepted(request(field(`headers="date",signature="%s",keyId="id",algorithm="hmac-sha1"`, signature(0, "key", "id", "date: "+date)), nil)),
		}},
		{Name: "hide", Config: `{"hide_credentials":true,"realm":"r"}`, Consumers: known, Requests: []plugintest.Request{
			{Header: h{"Authorization": simple, "Date": date}, Target: "/hello", Consumer: "jack", Gone: []string{"Authorization"}},
			{Status: 401, Reply: h{"WWW-Authenticate": `hmac realm="r"`}},
		}},
		{Name: "anonymous", Config: `{"anonymous_consumer":"anon"}`, Consumers: known, Requests: []plugintest.Request{
			{Consumer: "anon"}, {Header: h{"Authorization": "x"}, Consumer: "anon"}, accepted(request(simple, nil)),
		}},
		{Name: "no such anonymous", Config: `{"anonymous_consumer":"nobody"}`, Consumers: known, Requests: []plugintest.Request{
			{Status: 401, Body: `{"message":"Invalid user authorization"}`},
		}},
	})
}

func TestBody(t *testing.T) {
	digest := func(body string) string {
		sum := sha256.Sum256([]byte(body))
		return "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
	}
	with := func(digest, body string) plugintest.Request {
		r := request(signed("date", "date: "+date), h{"Digest": digest})
		r.Payload = body
		return r
	}
	large := with(digest("12345678901"), "12345678901")
	large.Status, large.Body, large.Reply = 413, `{"message":"request size is greater than the maximum size 10 allowed"}`, h{"WWW-Authenticate": ""}
	unread := refused(request("Signature", h{"Digest": "SHA-256=x"}))
	unread.Payload = "12345678901"
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "compared", Config: `{"validate_request_body":true,"max_req_body_size":10}`, Consumers: known(), Requests: []plugintest.Request{
			accepted(with(digest("body"), "body")),
			accepted(with(digest(""), "")),
			refused(with(digest("body"), "Body")),
			refused(with("", "body")),
			refused(with("hello", "body")),
			refused(with(strings.TrimPrefix(digest("body"), "SHA-256="), "body")),
			large,
			unread, // not before the signature is known to be good
		}},
		{Name: "not compared", Config: `{}`, Consumers: known(), Requests: []plugintest.Request{accepted(with("hello", "body"))}},
		{Name: "large and anonymous", Config: `{"validate_request_body":true,"max_req_body_size":10,"anonymous_consumer":"anon"}`, Consumers: known(), Requests: []plugintest.Request{large}},
	})
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "skew", Config: `{"clock_skew":0}`, Invalid: `property "clock_skew" validation failed: expected 0 to be at least 1`},
		{Name: "none", Config: `{"allowed_algorithms":[]}`, Invalid: `property "allowed_algorithms" validation failed: expect array to have at least 1 items`},
		{Name: "algorithm", Config: `{"allowed_algorithms":["md5"]}`, Invalid: `property "allowed_algorithms" validation failed: failed to validate item 1: matches none of the enum values`},
		{Name: "header", Config: `{"signed_headers":[""]}`, Invalid: `property "signed_headers" validation failed: failed to validate item 1: string too short, expected at least 1, got 0`},
	})
}

func TestCredential(t *testing.T) {
	const prefix = "failed to check the configuration of plugin hmac-auth err: "
	for _, c := range []struct{ doc, key, want string }{
		{`{"key_id":"id","secret_key":"key"}`, "id", ""},
		{`{"key_id":"id","secret_key":"$secret://vault/1/k"}`, "id", ""},
		{`{"key_id":"id"}`, "", prefix + `property "secret_key" is required`},
		{`{"secret_key":"key"}`, "", prefix + `property "key_id" is required`},
		{`{"key_id":"` + strings.Repeat("x", 257) + `","secret_key":"key"}`, "", prefix + `property "key_id" validation failed: string too long, expected at most 256, got 257`},
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

func compiled(tb testing.TB) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(`{"validate_request_body":true}`), plugintest.Env(func() time.Time { return time.Unix(1_000_000, 0) }))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func simpleCtx() *plugin.Ctx {
	sum := sha256.Sum256(nil)
	return plugintest.NewCtx("/hello?a=1",
		[2]string{"Authorization", signed("@request-target date", "GET /hello?a=1", "date: "+date)},
		[2]string{"Date", date}, [2]string{"Digest", "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])})
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	ph, consumers, ctx := compiled(t), known(), simpleCtx()
	for _, what := range []string{"accepted", "refused"} {
		run := func() {
			ctx.Reset()
			ctx.Index, ctx.Path = consumers, "/hello"
			if refused := plugintest.Send(ph, ctx) != nil; refused != (what == "refused") {
				t.Fatal("not", what)
			}
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
		ctx.Request.Method = "POST"
	}
}

func BenchmarkAccept(b *testing.B) {
	ph, consumers, ctx := compiled(b), known(), simpleCtx()
	b.ReportAllocs()
	for b.Loop() {
		ctx.Reset()
		ctx.Index, ctx.Path = consumers, "/hello"
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
	}
}

// FuzzHeader: no text panics or authenticates.
func FuzzHeader(f *testing.F) {
	f.Add(`Signature keyId="id",algorithm="hmac-sha256",headers="date",signature="AA=="`, date)
	f.Add(`Signature keyId="id,algorithm=,="","`, "Mon Jan 12 13:46:42 1970")
	ph, consumers := compiled(f), known()
	f.Fuzz(func(t *testing.T, authorization, date string) {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", authorization}, [2]string{"Date", date})
		ctx.Index = consumers
		if plugintest.Send(ph, ctx) == nil {
			t.Errorf("%q authenticates", authorization)
		}
	})
}
