package requestvalidation

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

type h = map[string]string

const form = "application/x-www-form-urlencoded"

func Test(t *testing.T) {
	post := func(body string, r plugintest.Request) plugintest.Request {
		r.Method, r.Payload = "POST", body
		return r
	}
	said := func(status int, body string) plugintest.Request {
		return plugintest.Request{Status: status, Body: body}
	}
	passed := func(body string) plugintest.Request { return plugintest.Request{UpstreamBody: body} }
	const schema = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"boolean"},"n":{"type":"integer","default":3}}}`
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "JSON", Config: `{"body_schema":` + schema + `}`, Requests: []plugintest.Request{
			post(`{"b":true,"a":"x"}`, passed(`{"a":"x","b":true,"n":3}`)),
			post(`{"a":1,"a":"x"}`, passed(`{"a":"x","n":3}`)),
			post(`{"b":true}`, said(400, `property "a" is required`)),
			post(`{"a":"x","b":1}`, said(400, `property "b" validation failed: wrong type: expected boolean, got number`)),
			post(`{"a"`, said(400, `unexpected end of JSON input`)),
			post(`[]`, said(400, `property "a" is required`)),
			post(``, said(400, "")),
		}},
		{Name: "form", Config: `{"body_schema":` + schema + `}`, Requests: []plugintest.Request{
			post(`a=x%20y&c`, plugintest.Request{Header: h{"Content-Type": form}}),
			post(`b`, plugintest.Request{Header: h{"content-type": form + "; charset=utf-8"}, Status: 400, Body: `property "a" is required`}),
			post(`a=1&a=2`, plugintest.Request{Header: h{"Content-Type": "APPLICATION/x-www-form-urlencoded"}, Status: 400, Body: `wrong type: expected string, got table`}),
			post(`{"a":"x"}`, plugintest.Request{Fields: [][2]string{{"Content-Type", form}, {"Content-Type", "application/json"}}, Status: 400}),
		}},
		{Name: "headers", Config: `{"header_schema":{"type":"object","required":["x-a"],"properties":{"x-a":{"type":"string","enum":["1","2"]},"x-b":{"type":"array"}}}}`, Requests: []plugintest.Request{
			{Header: h{"X-A": "1"}},
			said(400, `property "x-a" is required`),
			{Header: h{"X-A": "3"}, Status: 400, Body: `property "x-a" validation failed: matches none of the enum values`},
			{Fields: [][2]string{{"X-A", "1"}, {"X-B", "1"}, {"x-b", "2"}, {"X-b", "3"}}},
			{Fields: [][2]string{{"X-A", "$env://X"}}, Status: 400},
		}},
		{Name: "words", Config: `{"body_schema":` + schema + `,"rejected_code":505,"rejected_msg":"no"}`, Requests: []plugintest.Request{
			post(`{}`, said(505, "no")), post("", said(505, "no")),
		}},
		{Name: "long", Config: `{"body_schema":` + schema + `,"max_req_body_size":10}`, Requests: []plugintest.Request{
			post(`{"a":"long"}`, said(400, "")), post(`{"a":"x"}`, passed(`{"a":"x","n":3}`)),
		}},
		{Name: "none", Config: `{}`, Invalid: "object matches none of the required"},
		{Name: "empty", Config: `{"body_schema":{}}`, Requests: []plugintest.Request{post(`[1]`, passed(`[1]`))}},
		{Name: "type", Config: `{"body_schema":{"type":"test"}}`, Invalid: "invalid JSON type: test"},
		{Name: "enum", Config: `{"header_schema":{"properties":{"a":{"enum":"x"}}}}`, Invalid: "table expected, got string"},
		{Name: "schema", Config: `{"body_schema":"x"}`, Invalid: `property "body_schema" validation failed: wrong type: expected object, got string`},
		{Name: "message", Config: `{"body_schema":{},"rejected_msg":""}`, Invalid: `property "rejected_msg" validation failed: string too short, expected at least 1, got 0`},
	})
	if !Plugin.Guard {
		t.Error("no guard")
	}
}

func BenchmarkBody(b *testing.B) {
	ph, err := Plugin.Compile([]byte(`{"body_schema":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}`), plugintest.Env(time.Now))
	if err != nil {
		b.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	ctx.Buffer = body(`{"a":"x","b":[1,2,3]}`)
	b.ReportAllocs()
	for b.Loop() {
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
	}
}

type body string

func (b body) Body(int64) ([]byte, error) { return []byte(b), nil }
