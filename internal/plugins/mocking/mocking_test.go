package mocking

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

type h = map[string]string

func Test(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "example", Config: `{"response_example":"hello $remote_addr$arg_none","response_status":201,"content_type":"text/plain"}`, Requests: []plugintest.Request{
			{Status: 201, Body: "hello 127.0.0.1", Reply: h{"Content-Type": "text/plain", "x-mock-by": "Weir"}},
		}},
		{Name: "fixed", Config: `{"response_example":"","with_mock_header":false}`, Requests: []plugintest.Request{
			{Status: 200, Reply: h{"Content-Type": "application/json;charset=utf8", "x-mock-by": ""}},
		}},
		{Name: "headers", Config: `{"response_example":"x","response_headers":{"X-A":"$arg_a","X-N":1}}`, Requests: []plugintest.Request{
			{Query: h{"a": "b"}, Status: 200, Reply: h{"X-A": "b", "X-N": "1"}},
		}},
		{Name: "delay", Config: `{"response_example":"x","delay":2}`, Requests: []plugintest.Request{{Status: 200, Pause: 2 * time.Second}}},
		{Name: "long delay", Config: `{"response_example":"x","delay":9223372036854775807}`, Requests: []plugintest.Request{{Status: 200, Pause: 100 * 365 * 24 * time.Hour}}},
		{Name: "examples", Config: `{"response_schema":{"type":"object","properties":{"a":{"type":"String","example":"$remote_addr"},"b":{"type":"integer","example":4.5},"c":{"type":"number","example":5.5},"d":{"type":"boolean","example":true},"e":{"type":"object"},"f":{"type":"array"},"g":{"type":"null"}}}}`, Requests: []plugintest.Request{
			{Status: 200, Body: `{"a":"127.0.0.1","b":4,"c":5.5,"d":true,"e":{}}`},
		}},
		{Name: "XML", Config: `{"content_type":"text/xml","response_schema":{"properties":{"a":{"type":"string","example":"<"},"b":{"type":"object","properties":{"c":{"type":"integer","example":1}}}}}}`, Requests: []plugintest.Request{
			{Status: 200, Body: "<data>\n  <a>&lt;</a>\n  <b>\n    <c>1</c>\n  </b>\n</data>\n"},
		}},
		{Name: "HTML", Config: `{"content_type":"text/html","response_schema":{"properties":{"a":{"type":"string"}}}}`, Requests: []plugintest.Request{{Status: 200}}},
		{Name: "nothing", Config: `{}`, Invalid: "object matches none of the required"},
		{Name: "content type", Config: `{"response_example":"x","content_type":"text/csv"}`, Invalid: "unsupported content type!"},
		{Name: "no type", Config: `{"response_schema":{"properties":{"a":{}}}}`, Invalid: `response_schema: property "a": it has no type`},
		{Name: "deep", Config: `{"response_schema":{"properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 100) + `{"type":"string"}` + strings.Repeat("}", 101) + `}}`, Invalid: `response_schema: property "a": it lies deeper than 100 levels`},
		{Name: "properties", Config: `{"response_schema":{"properties":1}}`, Invalid: `response_schema: properties: `},
	})
}

func TestRandom(t *testing.T) {
	const properties = `{"properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean","example":false},
		"a":{"type":"array","items":{"type":"object","properties":{"s":{"type":"string"}}}},"aa":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}`
	for _, media := range []string{"application/json", "application/xml"} {
		ph, err := Plugin.Compile([]byte(`{"content_type":"`+media+`","response_schema":`+properties+`}`), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			r := plugintest.Send(ph, plugintest.NewCtx("/"))
			var doc struct {
				S  string
				I  int
				N  float64
				B  bool
				A  []struct{ S string }
				AA [][]int
			}
			if media == "application/xml" {
				if err := xml.Unmarshal(r.Body, new(struct{})); err != nil {
					t.Fatalf("%s: %v", r.Body, err)
				}
				continue
			}
			if err := json.Unmarshal(r.Body, &doc); err != nil {
				t.Fatalf("%s: %v", r.Body, err)
			}
			if n := len(doc.S); n < 1 || n > 10 || strings.Trim(doc.S, "abcdefghijklmnopqrstuvwxyz") != "" ||
				doc.I < 1 || doc.I > 10000 || doc.N < 0 || doc.N >= 10000 || len(doc.A) < 1 || len(doc.A) > 3 || len(doc.AA) < 1 || len(doc.AA[0]) < 1 {
				t.Fatalf("%s", r.Body)
			}
		}
	}
}

// TestBound: arrays in arrays multiply; the answer has an end, and stays what the schema describes.
func TestBound(t *testing.T) {
	inList := `{"type":"string","example":"0123456789"}`
	inObjects := inList
	for range 13 { // 3^13 are 1.6 million
		inList = `{"type":"array","items":` + inList + `}`
		inObjects = `{"type":"array","items":{"type":"object","properties":{"a":` + inObjects + `}}}`
	}
	for _, schema := range []string{inList, inObjects} {
		for _, media := range []string{"application/json", "application/xml"} {
			env := plugintest.Env(time.Now)
			env.Rand = func() float64 { return 0.99 }
			ph, err := Plugin.Compile([]byte(`{"content_type":"`+media+`","response_schema":{"properties":{"a":`+schema+`,"b":{"type":"array","items":{"type":"integer","example":1}}}}}`), env)
			if err != nil {
				t.Fatal(err)
			}
			body := plugintest.Send(ph, plugintest.NewCtx("/")).Body
			if len(body) > enough+4096 {
				t.Errorf("%s: %d bytes", media, len(body))
			}
			if media == "application/json" && !json.Valid(body) || media == "application/xml" && xml.Unmarshal(body, new(struct{})) != nil {
				t.Errorf("%s: is none: %.100s", media, body)
			}
			if tail := map[string]string{"application/json": `],"b":[1]}`, "application/xml": "</a>\n  <b>1</b>\n</data>\n"}[media]; len(body) > enough && !strings.HasSuffix(string(body), tail) {
				t.Errorf("%s: more than one item after the end: %s", media, body[len(body)-50:])
			}
		}
	}
}

func TestGone(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"response_example":"x","delay":1}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	ctx.Pause = func(time.Duration) bool { return false }
	if r := plugintest.Send(ph, ctx); r.Status != 499 {
		t.Errorf("%+v", r)
	}
}

func TestNoAllocation(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"response_example":"x"}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
