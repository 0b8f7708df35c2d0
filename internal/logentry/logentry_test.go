package logentry

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/schema"
	"weir/internal/wire"
)

// all is a logger's configuration.
type all struct {
	Formats
	Bodies
	Batch
}

func compiled(tb testing.TB, conf, meta string) *Entry {
	tb.Helper()
	e, err := compile(conf, meta)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func compile(conf, meta string) (*Entry, error) {
	var c all
	if err := schema.Of[all]().Decode([]byte(conf), &c); err != nil {
		return nil, err
	}
	var m Metadata
	if err := schema.Of[Metadata]().Decode([]byte(meta), &m); err != nil {
		return nil, err
	}
	env := plugintest.Env(time.Now)
	env.Version = "1.2.3"
	return Compile(c.Formats, m.Formats, c.Bodies, env)
}

// request is a finished request of route 1.
func request(fields ...[2]string) *plugin.Ctx {
	c := plugintest.NewCtx("/a%20b?x=1&y=%41+b&x=2&flag&=none", fields...)
	c.Request.Host = "Example.com:9080"
	c.Path = "/a b"
	c.Start = time.UnixMilli(1_700_000_000_123)
	c.Sent = plugin.Outcome{
		Status: 200, Bytes: 300, Received: 150, End: c.Start.Add(12345 * time.Microsecond), Node: "name.test:1980",
		Tries: []plugin.Try{{Addr: "127.0.0.1:1980", Status: 200, Total: 10 * time.Millisecond}},
	}
	c.Response = &wire.Response{Status: 200, Length: 5}
	c.Response.Header.Add("Content-Type", "text/plain")
	return c
}

// log takes a request with bodies through the phases and returns its entry.
func log(e *Entry, c *plugin.Ctx, body, answer string) string {
	c.Request.Length = int64(len(body))
	p := e.Phases()
	if p.Access != nil {
		p.Access(c)
	}
	for _, t := range c.Taps() {
		t.See([]byte(body[:len(body)/2]))
		t.See([]byte(body[len(body)/2:]))
	}
	if p.Body != nil {
		if f := p.Body(c); f != nil {
			half := len(answer) / 2
			out := append([]byte(nil), f.Write([]byte(answer[:half]), false)...)
			if out = append(out, f.Write([]byte(answer[half:]), true)...); string(out) != answer {
				return "the body was changed to " + string(out)
			}
		}
	}
	return string(e.Make(c))
}

func TestFull(t *testing.T) {
	c := request([2]string{"Host", "Example.com:9080"}, [2]string{"X-Two", "a"}, [2]string{"Accept", "*/*"}, [2]string{"x-two", "b\"\xff"}, [2]string{"Secret", "s"})
	c.DelHeader("secret")
	c.Request.Header.Receive("X-Real-Ip", "9.9.9.9")
	for i := range c.Request.Header.Fields() {
		if f := &c.Request.Header.Fields()[i]; f.Name == "X-Real-Ip" {
			f.Dropped = true // by the gateway, when it began to proxy
		}
	}
	c.Response.Header.Add("Set-Cookie", "a=1")
	c.Response.Header.Add("Set-Cookie", "b=2")
	c.Response.Header.Add("X-Gone", "x")
	c.Response.Header.Del("X-Gone")
	c.Route = &plugin.Route{ID: "1", ServiceID: "s"}
	c.Consumer = &plugin.Consumer{Name: "jack"}
	host, _ := os.Hostname()
	want := `{"apisix_latency":2.345,"client_ip":"127.0.0.1","consumer":{"username":"jack"},"latency":12.345,` +
		`"request":{"headers":{"host":"Example.com:9080","x-two":["a","b\"` + "\uFFFD" + `"],"accept":"*/*","x-real-ip":"9.9.9.9"},` +
		`"method":"GET","querystring":{"x":["1","2"],"y":"A b","flag":true},"size":150,` +
		`"uri":"/a b?x=1&y=%41+b&x=2&flag&=none","url":"http://example.com:9080/a b?x=1&y=%41+b&x=2&flag&=none"},` +
		`"response":{"headers":{"content-type":"text/plain","set-cookie":["a=1","b=2"],"content-length":"5"},"size":300,"status":200},` +
		`"route_id":"1","server":{"hostname":"` + host + `","version":"1.2.3"},"service_id":"s","start_time":1700000000123,` +
		`"upstream":"127.0.0.1:1980","upstream_latency":10}`
	if got := log(compiled(t, `{}`, `{}`), c, "", ""); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFullUnmatched(t *testing.T) {
	c := request()
	c.Route, c.Response, c.Sent.Tries = nil, nil, nil
	got := log(compiled(t, `{}`, `{}`), c, "", "")
	var doc map[string]any
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		t.Fatal(err, got)
	}
	for _, name := range []string{"route_id", "consumer", "upstream", "upstream_latency"} {
		if v, there := doc[name]; there {
			t.Errorf("%s: %v", name, v)
		}
	}
	if doc["service_id"] != "example.com" || doc["apisix_latency"] != doc["latency"] {
		t.Error(got)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ name, conf, meta, want string }{
		{"variables", `{"log_format":{"host":"$host","@timestamp":"$time_none","status":"$status","plain":"host","n":1.50,"t":true,"z":null,"e":""}}`, `{}`,
			`{"e":"","host":"example.com","n":1.50,"plain":"host","status":200,"t":true,"z":null,"route_id":"1"}`},
		{"metadata", `{}`, `{"log_format":{"host":"$host"}}`, `{"host":"example.com","route_id":"1"}`},
		{"the plugin's own wins", `{"log_format":{}}`, `{"log_format":{"host":"$host"}}`, `{"route_id":"1"}`},
		{"ids win", `{"log_format":{"route_id":"x","service_id":"y","a":"b"}}`, `{}`, `{"a":"b","service_id":"y","route_id":"1"}`},
		{"nested", `{"log_format":{"a":{"b":["$host","$none",{"c":"$none"}],"d":{}}}}`, `{}`,
			`{"a":{"b":["example.com",null,{}],"d":{}},"route_id":"1"}`},
		{"too deep", `{"log_format":{"a":{"b":{"c":{"d":{"e":{"f":{"g":"$host"}}}}}}}}`, `{}`,
			`{"a":{"b":{"c":{"d":{"e":{}}}}},"route_id":"1"}`},
		{"node", `{"log_format":{"n":"$upstream_unresolved_host","u":"$upstream_addr"}}`, `{}`,
			`{"n":"name.test","u":"127.0.0.1:1980","route_id":"1"}`},
		{"bodies not asked for", `{"log_format":{"r":"$resp_body","q":"$request_body"}}`, `{}`, `{"r":"","route_id":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := log(compiled(t, c.conf, c.meta), request(), "", ""); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	unmatched := request()
	unmatched.Route = nil
	if got := log(compiled(t, `{"log_format":{}}`, `{}`), unmatched, "", ""); got != `{}` {
		t.Error(got)
	}
	for conf, want := range map[string]string{
		`{"log_format":{}}`:               `{"route_id":"no-matched"}`,
		`{"log_format":{"route_id":"x"}}`: `{"route_id":"x"}`,
		`{}`:                              `"route_id":"no-matched"`,
	} {
		e := compiled(t, conf, `{}`)
		e.NoRoute = "no-matched"
		if got := log(e, unmatched, "", ""); !strings.Contains(got, want) || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %s, want %s", conf, got, want)
		}
	}
}

func TestExtra(t *testing.T) {
	for _, c := range []struct{ name, conf, meta, want, never string }{
		{"adds", `{"log_format_extra":{"u":"$upstream_unresolved_host","client_ip":"no","none":"$none"}}`, `{}`, `"upstream_latency":10,"u":"name.test"}`, `"no"`},
		{"metadata", `{}`, `{"log_format_extra":{"m":"x"}}`, `"m":"x"}`, ""},
		{"the plugin's own wins", `{"log_format_extra":{}}`, `{"log_format_extra":{"m":"x"}}`, `"upstream_latency":10}`, `"m"`},
		{"not with a format", `{"log_format_extra":{"m":"x"},"log_format":{"a":"b"}}`, `{}`, `{"a":"b","route_id":"1"}`, `"m"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := log(compiled(t, c.conf, c.meta), request(), "", "")
			if !strings.HasSuffix(got, c.want) || c.never != "" && strings.Contains(got, c.never) || !json.Valid([]byte(got)) {
				t.Errorf("got %s, want it to end in %s, without %s", got, c.want, c.never)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	const both = `"include_req_body":true,"include_resp_body":true`
	for _, c := range []struct{ name, conf, req, resp string }{
		{"both", `{` + both + `}`, "request", "answer"},
		{"neither", `{}`, "", ""},
		{"limits", `{` + both + `,"max_req_body_bytes":3,"max_resp_body_bytes":4}`, "req", "answ"},
		{"conditions hold", `{` + both + `,"include_req_body_expr":[["arg_x","==","1"]],"include_resp_body_expr":[["status","==","200"]]}`, "request", "answer"},
		{"conditions do not", `{` + both + `,"include_req_body_expr":[["arg_x","==","2"]],"include_resp_body_expr":[["status","==","500"]]}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := compiled(t, c.conf, `{}`)
			for range 3 { // what is pooled must not shine through
				var doc struct{ Request, Response struct{ Body string } }
				if err := json.Unmarshal([]byte(log(e, request(), "request", "answer")), &doc); err != nil {
					t.Fatal(err)
				}
				if doc.Request.Body != c.req || doc.Response.Body != c.resp {
					t.Errorf("got %q and %q, want %q and %q", doc.Request.Body, doc.Response.Body, c.req, c.resp)
				}
			}
		})
	}
}

func TestBodiesInFormat(t *testing.T) {
	e := compiled(t, `{"log_format":{"q":"$request_body","r":"$resp_body","p":"$post_arg.a"},"include_resp_body":true,"max_req_body_bytes":7}`, `{}`)
	c := request([2]string{"Content-Type", "application/json"})
	c.Buffer = buffered(`{"a":"b"}`)
	want := `{"p":"b","q":"{\"a\":\"b","r":"answer","route_id":"1"}`
	if got := log(e, c, `{"a":"b"}`, "answer"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

type buffered string

func (b buffered) Body(int64) ([]byte, error) { return []byte(b), nil }

func TestDecode(t *testing.T) {
	text := strings.Repeat("hello world ", 100)
	for coding, make := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"BR":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	} {
		var b bytes.Buffer
		w := make(&b)
		io.WriteString(w, text)
		w.Close()
		if got := decode(coding, b.Bytes(), 1<<20); string(got) != text {
			t.Errorf("%s: got %q", coding, got)
		}
		if got := decode(coding, b.Bytes(), 20); string(got) != text[:20] {
			t.Errorf("%s, limited: got %q", coding, got)
		}
		if got := decode(coding, []byte("plain"), 20); string(got) != "plain" {
			t.Errorf("%s, not what it says: got %q", coding, got)
		}
	}
	if got := decode("zstd", []byte("z"), 20); string(got) != "z" {
		t.Errorf("unknown coding: got %q", got)
	}
	e := compiled(t, `{"include_resp_body":true}`, `{}`)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	c := request()
	c.Response.Header.Set("Content-Encoding", "gzip")
	if got := log(e, c, "", b.String()); !strings.Contains(got, `"body":"hello world hello`) {
		t.Error(got)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ conf, want string }{
		{`{"log_format":"x"}`, `property "log_format" validation failed: wrong type: expected object, got string`},
		{`{"include_req_body_expr":[]}`, `property "include_req_body_expr" validation failed`},
		{`{"include_req_body_expr":[["a","=","b"]]}`, `failed to validate the 'include_req_body_expr' expression: invalid operator '='`},
		{`{"include_resp_body_expr":[["a","=","b"]]}`, `failed to validate the 'include_resp_body_expr' expression: invalid operator '='`},
		{`{"max_req_body_bytes":"10"}`, `property "max_req_body_bytes" validation failed: wrong type: expected integer, got string`},
		{`{"max_resp_body_bytes":0}`, `property "max_resp_body_bytes" validation failed: expected 0 to be at least 1`},
		{`{"batch_max_size":0}`, `property "batch_max_size" validation failed: expected 0 to be at least 1`},
	} {
		if _, err := compile(c.conf, `{}`); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.conf, err, c.want)
		}
	}
	if _, err := compile(`{}`, `{"max_pending_entries":0}`); err == nil {
		t.Error("a backlog of nothing")
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("/a?b=c&b&=&%zz", "X-Name", "value\xff", "a\x00b")
	full := compiled(f, `{"include_req_body":true,"include_resp_body":true,"log_format_extra":{"a":"$http_x_name"}}`, `{}`)
	f.Fuzz(func(t *testing.T, target, name, value, body string) {
		c := request([2]string{name, value}, [2]string{name, value})
		c.Request.Target = target
		c.Client = netip.MustParseAddr("::1").String()
		if got := log(full, c, body, body); !json.Valid([]byte(got)) {
			t.Fatalf("not JSON: %q", got)
		}
	})
}

func BenchmarkFull(b *testing.B) {
	e := compiled(b, `{}`, `{}`)
	c := request([2]string{"Host", "example.com"}, [2]string{"Accept", "*/*"}, [2]string{"User-Agent", "curl/8"}, [2]string{"X-Trace", "abcdef"})
	b.ReportAllocs()
	for b.Loop() {
		e.Make(c)
	}
}
