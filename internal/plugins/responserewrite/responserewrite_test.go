package responserewrite

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

type h = map[string]string

func Test(t *testing.T) {
	answer := plugintest.Answer{Body: "hello world hello", Header: h{"ETag": `"1"`, "Last-Modified": "now", "Content-Encoding": "", "X-Up": "1"}}
	from := func(r plugintest.Request) []plugintest.Request {
		r.Answer = answer
		return []plugintest.Request{r}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "body", Config: `{"body":"new body\n","status_code":205}`, Requests: from(plugintest.Request{Body: "new body\n", Reply: h{"ETag": "", "Last-Modified": ""}})},
		{Name: "no body", Config: `{"body":""}`, Requests: from(plugintest.Request{Reply: h{"ETag": ""}})},
		{Name: "Base64", Config: `{"body":"SGVsbG8K","body_base64":true}`, Requests: from(plugintest.Request{Body: "Hello\n"})},
		{Name: "Base64 without padding", Config: `{"body":"SGk","body_base64":true}`, Requests: from(plugintest.Request{Body: "Hi"})},
		{Name: "headers", Config: `{"headers":{"X-A":"1","X-N":3,"X-V":"$status:$remote_addr:$arg_none"}}`, Requests: from(plugintest.Request{
			Body: "hello world hello", Reply: h{"X-A": "1", "X-N": "3", "X-V": "200:127.0.0.1:", "ETag": `"1"`},
		})},
		{Name: "add, set, remove", Config: `{"headers":{"add":["X-Added : a b"],"set":{"X-Up":"2"},"remove":["ETag"]}}`, Requests: from(plugintest.Request{
			Reply: h{"X-Added": "a b", "X-Up": "2", "ETag": ""},
		})},
		{Name: "status", Config: `{"status_code":503,"vars":[["status","==",200]]}`, Requests: []plugintest.Request{
			{Answer: answer}, {Answer: plugintest.Answer{Status: 404}},
		}},
		{Name: "once", Config: `{"filters":[{"regex":"hello","replace":"HELLO"}]}`, Requests: from(plugintest.Request{Body: "HELLO world hello", Reply: h{"ETag": ""}})},
		{Name: "global", Config: `{"filters":[{"regex":"(h)(.)llo","replace":"$2$1","scope":"global"},{"regex":"W","replace":"","options":"ijo"}]}`, Requests: from(plugintest.Request{Body: "eh orld eh"})},
		{Name: "not", Config: `{"filters":[{"regex":"hello","replace":"bye"}],"vars":[["status","==",201]]}`, Requests: from(plugintest.Request{Body: "hello world hello", Reply: h{"ETag": `"1"`}})},
		{Name: "longer than looked at", Config: `{"filters":[{"regex":"o","replace":"0","scope":"global"}],"max_resp_body_size":7}`, Requests: from(plugintest.Request{Body: "hell0 w"})},
		{Name: "empty", Config: `{"headers":{"X-Up":"","ETag":"$arg_none"}}`, Requests: from(plugintest.Request{Reply: h{"X-Up": "", "ETag": ""}})},
	})
}

func TestInvalid(t *testing.T) {
	const item = `property "filters" validation failed: failed to validate item 1: property `
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "status", Config: `{"status_code":599}`, Invalid: `property "status_code" validation failed: expected 599 to be at most 598`},
		{Name: "body", Config: `{"body":2}`, Invalid: `property "body" validation failed: wrong type: expected string, got number`},
		{Name: "Base64", Config: `{"body":"1","body_base64":true}`, Invalid: "invalid base64 content"},
		{Name: "no Base64", Config: `{"body_base64":true}`, Invalid: "invalid base64 content"},
		{Name: "vars", Config: `{"vars":[["a","=","b"]]}`, Invalid: "failed to validate the 'vars' expression: invalid operator '='"},
		{Name: "vars type", Config: `{"vars":1}`, Invalid: `property "vars" validation failed: wrong type: expected array, got number`},
		{Name: "both", Config: `{"body":"a","filters":[{"regex":"a","replace":"b"}]}`, Invalid: `failed to validate dependent schema for "`},
		{Name: "no filters", Config: `{"filters":[]}`, Invalid: `property "filters" validation failed: expect array to have at least 1 items`},
		{Name: "replace", Config: `{"filters":[{"regex":"a"}]}`, Invalid: item + `"replace" is required`},
		{Name: "regex", Config: `{"filters":[{"regex":"","replace":""}]}`, Invalid: item + `"regex" validation failed: string too short, expected at least 1, got 0`},
		{Name: "scope", Config: `{"filters":[{"regex":"a","replace":"","scope":"two"}]}`, Invalid: item + `"scope" validation failed: matches none of the enum values`},
		{Name: "options", Config: `{"filters":[{"regex":"hello","replace":"","options":"h"}]}`, Invalid: `regex "hello" validation failed: unknown flag "h" (flags "h")`},
		{Name: "pattern", Config: `{"filters":[{"regex":"(","replace":""}]}`, Invalid: `regex "(" validation failed: pcre_compile() failed: missing ) in "("`},
		{Name: "headers", Config: `{"headers":{}}`, Requests: []plugintest.Request{{}}},
		{Name: "no name", Config: `{"headers":{"":"a"}}`, Invalid: "err: invalid field length in header"},
		{Name: "no value", Config: `{"headers":{"a":["b"]}}`, Invalid: "err: invalid type as header value"},
		{Name: "add", Config: `{"headers":{"add":["a"]}}`, Invalid: `property "headers" validation failed: object matches none of the required`},
		{Name: "set", Config: `{"headers":{"set":{}}}`, Invalid: `property "headers" validation failed: object matches none of the required`},
		{Name: "remove", Config: `{"headers":{"remove":[]}}`, Invalid: `property "headers" validation failed: object matches none of the required`},
	})
}

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

// body sends a body through the filter in pieces.
func body(t *testing.T, ph plugin.Phases, coding, in string, piece int) (out string, c *plugin.Ctx) {
	t.Helper()
	c = plugintest.NewCtx("/")
	c.Response = &wire.Response{Status: 200}
	if coding != "" {
		c.Response.Header.Add("Content-Encoding", coding)
	}
	ph.Header(c)
	f := ph.Body(c)
	for from := 0; from < len(in); from += piece {
		out += string(f.Write([]byte(in[from:min(from+piece, len(in))]), false))
	}
	return out + string(f.Write(nil, true)), c
}

func TestDecompressed(t *testing.T) {
	const plain = "hello world"
	var zipped, br bytes.Buffer
	z, b := gzip.NewWriter(&zipped), brotli.NewWriter(&br)
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{z, b} {
		w.Write([]byte(plain))
		w.Close()
	}
	ph := compiled(t, `{"filters":[{"regex":"hello","replace":"bye"}]}`)
	for _, c := range []struct{ coding, in, want string }{
		{"gzip", zipped.String(), "bye world"},
		{"br", br.String(), "bye world"},
		{"", plain, "bye world"},
		{"gzip", plain, plain}, // it is none
		{"gzip", zipped.String()[:20], zipped.String()[:20]},
		{"deflate", plain, plain},
	} {
		for _, piece := range []int{1, 1000} {
			got, ctx := body(t, ph, c.coding, c.in, piece)
			if _, there := ctx.Response.Header.Get("Content-Encoding"); got != c.want || there {
				t.Errorf("%s: %q, want %q", c.coding, got, c.want)
			}
		}
	}
	// What does not fit is cut, not left to fill the memory.
	zipped.Reset()
	z.Reset(&zipped)
	z.Write(bytes.Repeat([]byte("a"), 1<<20))
	z.Close()
	ph = compiled(t, `{"filters":[{"regex":"b","replace":"c"}],"max_resp_body_size":2000}`)
	if got, _ := body(t, ph, "gzip", zipped.String(), 1000); got != strings.Repeat("a", 2000) {
		t.Errorf("%d bytes", len(got))
	}
}

// A header line that is none changes nothing, as in APISIX.
func TestNoHeader(t *testing.T) {
	for line, want := range map[string][2]string{
		"A:b": {"A", "b"}, "A : b c": {"A", "b c"}, "A b: c": {}, ": c": {}, "A: ": {"A", " "},
	} {
		name, value, ok := split(line)
		if ok != (want[0] != "") || ok && (name != want[0] || value != want[1]) {
			t.Errorf("%q: %q %q %v", line, name, value, ok)
		}
	}
	ph := compiled(t, `{"headers":{"add":["A b: c"],"set":{"X":"1"}}}`)
	c := plugintest.NewCtx("/")
	c.Response = new(wire.Response)
	ph.Header(c)
	if n := len(c.Response.Header.Fields()); n != 0 {
		t.Errorf("%d headers", n)
	}
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph := compiled(t, `{"body":"x","status_code":201,"headers":{"X-A":"$remote_addr"},"vars":[["status","==",200]]}`)
	c, response := plugintest.NewCtx("/"), new(wire.Response)
	if n := testing.AllocsPerRun(100, func() {
		c.Reset()
		response.Reset()
		c.Response, response.Status = response, 200
		ph.Header(c)
		f := ph.Body(c)
		f.Write(nil, true)
		f.(interface{ Close() }).Close()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
