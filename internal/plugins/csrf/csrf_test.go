package csrf

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

type h = map[string]string

// A token made by APISIX with the key "userkey", at 2643119624.
const foreign = "eyJyYW5kb20iOjAuNDI5ODYzMTk3MTYxMzksInNpZ24iOiI0ODRlMDY4NTkxMWQ5NmJhMDc5YzQ1ZGI0OTE2NmZkYjQ0ODhjODVkNWQ0NmE1Y2FhM2UwMmFhZDliNjE5OTQ2IiwiZXhwaXJlcyI6MjY0MzExOTYyNH0="

func both(token string) h {
	return h{"apisix-csrf-token": token, "Cookie": "apisix-csrf-token=" + token}
}

// token makes one as the plugin does, of the given JSON values.
func token(random, made, sign string) string {
	if sign == "" {
		s := (&Config{Key: "userkey"}).sign([]byte(strings.Trim(random, `"`)), []byte(made))
		sign = string(s[:])
	}
	return base64.StdEncoding.EncodeToString([]byte(`{"random":` + random + `,"expires":` + made + `,"sign":"` + sign + `"}`))
}

func Test(t *testing.T) {
	const now = "1000000"
	refused := func(header h, msg string) plugintest.Request {
		return plugintest.Request{Method: "POST", Header: header, Status: 401, Body: `{"error_msg":"` + msg + `"}` + "\n"}
	}
	accepted := func(token string) plugintest.Request { return plugintest.Request{Method: "POST", Header: both(token)} }
	after := func(d time.Duration, r plugintest.Request) plugintest.Request {
		r.After = d
		return r
	}
	const invalid = "Failed to verify the csrf token signature"
	good := token("0.5", now, "")
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no key", Config: `{}`, Invalid: `property "key" is required`},
		{Name: "expires", Config: `{"key":"k","expires":"1"}`, Invalid: `property "expires" validation failed: wrong type: expected integer, got string`},
		{Name: "form", Config: `{"key":"userkey"}`, Requests: []plugintest.Request{
			{},
			{Method: "HEAD"},
			{Method: "OPTIONS"},
			refused(nil, "no csrf token in headers"),
			refused(h{"apisix-csrf-token": ""}, "no csrf token in headers"),
			refused(h{"Cookie": "apisix-csrf-token=" + good}, "no csrf token in headers"),
			refused(h{"apisix-csrf-token": good}, "no csrf cookie"),
			refused(h{"apisix-csrf-token": good, "Cookie": "apisix-csrf-token=x"}, "csrf token mismatch"),
			refused(both("x"), invalid), refused(both("?"), invalid),
			{Method: "DELETE", Status: 401},
			{Method: "get", Status: 401},
			accepted(good), accepted(strings.TrimRight(good, "=")), accepted(foreign),
			accepted(token(`"text"`, now, "")),
		}},
		{Name: "tokens", Config: `{"key":"userkey"}`, Requests: []plugintest.Request{
			refused(both(token("0.5", now, strings.Repeat("0", 64))), invalid),
			refused(both(token("0.5", now, "x")), invalid),
			refused(both(token("true", now, "")), invalid),
			refused(both(token("0.5", `"then"`, "")), invalid),
			refused(both(base64.StdEncoding.EncodeToString([]byte(`{}`))), invalid),
			refused(both(base64.StdEncoding.EncodeToString([]byte(`[]`))), invalid),
			refused(both(base64.StdEncoding.EncodeToString([]byte(`{"random":0.5,"sign":""}`))), invalid),
		}},
		{Name: "another key", Config: `{"key":"otherkey"}`, Requests: []plugintest.Request{refused(both(good), invalid)}},
		{Name: "age", Config: `{"key":"userkey","expires":10}`, Requests: []plugintest.Request{
			after(10*time.Second, accepted(good)),
			after(time.Second, refused(both(good), invalid)),
		}},
		{Name: "for ever", Config: `{"key":"userkey","expires":0}`, Requests: []plugintest.Request{after(1000*time.Hour, accepted(good))}},
		{Name: "name", Config: `{"key":"userkey","name":"x-token"}`, Requests: []plugintest.Request{
			{Method: "PUT", Header: h{"X-Token": good, "Cookie": "x-token=" + good}},
			refused(both(good), "no csrf token in headers"),
		}},
	})
}

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(func() time.Time { return time.Unix(1_000_000, 0) }))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

// answer runs the Header phase on an answer that sets a cookie of its own, and
// returns the plugin's.
func answer(ph plugin.Phases, ctx *plugin.Ctx) string {
	ctx.Response.Header.Reset()
	ctx.Response.Header.Add("Set-Cookie", "own=1")
	ph.Header(ctx)
	f := ctx.Response.Header.Fields()
	if len(f) != 2 || f[0].Value != "own=1" || f[1].Name != "Set-Cookie" {
		return ""
	}
	return f[1].Value
}

// TestCookie: what an answer sets is good for the next request.
func TestCookie(t *testing.T) {
	for conf, expires := range map[string]string{
		`{"key":"userkey"}`:                          "Mon, 12-Jan-70 15:46:40 GMT",
		`{"key":"userkey","expires":-1000000}`:       "Thu, 01-Jan-70 00:00:00 GMT",
		`{"key":"userkey","expires":2150000000}`:     "Sun, 28-Feb-2038 20:00:00 GMT",
		`{"key":"a \" key with \\","expires":10000}`: "Mon, 12-Jan-70 16:33:20 GMT",
	} {
		ph := compiled(t, conf)
		ctx := plugintest.NewCtx("/")
		ctx.Response = new(wire.Response)
		cookie := answer(ph, ctx)
		token, attributes, _ := strings.Cut(strings.TrimPrefix(cookie, "apisix-csrf-token="), ";")
		if attributes != "path=/;SameSite=Lax;Expires="+expires {
			t.Errorf("%s: %s", conf, cookie)
		}
		next := plugintest.NewCtx("/", [2]string{"apisix-csrf-token", token}, [2]string{"Cookie", "a=b; apisix-csrf-token=" + token})
		next.Request.Method = "POST"
		if reply := plugintest.Send(ph, next); reply != nil {
			t.Errorf("%s: %s of %s", conf, reply.Body, cookie)
		}
		if answer(ph, ctx) == cookie {
			t.Error("two tokens are the same")
		}
	}
}

func TestNoAllocation(t *testing.T) {
	ph := compiled(t, `{"key":"userkey"}`)
	good := token("0.5", "1000000", "")
	ctx := plugintest.NewCtx("/", [2]string{"apisix-csrf-token", good}, [2]string{"Cookie", "apisix-csrf-token=" + good})
	ctx.Request.Method = "POST"
	response := new(wire.Response)
	run := func() {
		ctx.Reset() // what is kept for a request is kept once
		ctx.Response = response
		if plugintest.Send(ph, ctx) != nil || answer(ph, ctx) == "" {
			t.Fatal("refused, or no cookie")
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzToken: no text panics, and none is good but with a signature.
func FuzzToken(f *testing.F) {
	good := token("0.5", "1000000", "")
	sign := (&Config{Key: "userkey"}).sign([]byte("0.5"), []byte("1000000"))
	f.Add(good)
	f.Add(token("1e9", "1", "0"))
	f.Add(token(`"a"`, "1", `"`))
	f.Add("e30=")
	c := &Config{Key: "userkey", Expires: 10}
	f.Fuzz(func(t *testing.T, token string) {
		if !c.verify(token, 1_000_000) {
			return
		}
		text, err := base64.StdEncoding.DecodeString(token)
		if err == nil && !strings.Contains(string(text), string(sign[:])) {
			t.Errorf("%q is good", text)
		}
	})
}
