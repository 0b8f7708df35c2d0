package redirect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

func compiled(tb testing.TB, conf string, change func(*plugin.Env)) plugin.Phases {
	tb.Helper()
	env := plugintest.Env(time.Now)
	if change != nil {
		change(&env)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func to(status int, location string) plugintest.Request {
	return plugintest.Request{Status: status, Reply: h{"Location": location}}
}

func at(target string, r plugintest.Request) plugintest.Request {
	r.Target = target
	return r
}

func Test(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "uri", Config: `{"uri":"/test/$uri/x","ret_code":301}`, Requests: []plugintest.Request{
			at("/a?b=c", to(301, "/test//a/x")),
		}},
		{Name: "syntax", Config: `{"uri":"/$uri${uri}.html?\\$uri=$host.$none$$ \\x${a-b}$arg_b"}`, Requests: []plugintest.Request{
			at("/a?b=c%20d", to(302, `//a/a.html?\$uri=example.com.$$ x${a-b}c d`)),
		}},
		{Name: "query", Config: `{"uri":"/new","append_query_string":true}`, Requests: []plugintest.Request{
			at("/a?b=c", to(302, "/new?b=c")),
			at("/a", to(302, "/new")),
		}},
		{Name: "query behind a query", Config: `{"uri":"$uri?type=string","append_query_string":true}`, Requests: []plugintest.Request{
			at("/a?b=c", to(302, "/a?type=string&b=c")),
		}},
		{Name: "encoded", Config: `{"uri":"$uri/é?x=ü","encode_uri":true}`, Requests: []plugintest.Request{
			at("/a b", to(302, "/a%20b/%C3%A9?x=ü")),
		}},
		{Name: "regular expression", Config: `{"regex_uri":["^/test/(.*)/(.*)","http://test.com/${1}_$2"]}`, Requests: []plugintest.Request{
			at("/test/a/b?c", to(302, "http://test.com/a_b")),
			at("/other", plugintest.Request{}),
		}},
		{Name: "to HTTPS", Config: `{"http_to_https":true}`, Requests: []plugintest.Request{
			at("/a?b=c", to(301, "https://example.com/a?b=c")),
			{Method: "HEAD", Status: 301},
			{Method: "POST", Status: 308},
			{Header: h{"X-Forwarded-Proto": "https"}},
			{Header: h{"X-Forwarded-Proto": "http"}, Status: 301},
		}},
		{Name: "not to HTTPS", Config: `{"http_to_https":false}`, Requests: []plugintest.Request{{}}},
	})
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		ports []int
		attr  string
		want  string
	}{
		{nil, "", "https://example.com/"},
		{[]int{9443}, "", "https://example.com:9443/"},
		{[]int{443}, "", "https://example.com/"},
		{[]int{9443}, `{"https_port":8443}`, "https://example.com:8443/"},
		{[]int{9443}, `{"https_port":443}`, "https://example.com/"},
		{[]int{9443}, `{"https_port":65536}`, "https://example.com/"},
	} {
		ph := compiled(t, `{"http_to_https":true}`, func(e *plugin.Env) {
			e.TLSPorts = c.ports
			if c.attr != "" {
				e.Attr = json.RawMessage(c.attr)
			}
		})
		ctx := plugintest.NewCtx("/")
		plugintest.Send(ph, ctx)
		if got := ctx.ReplyHeader(); len(got) != 1 || got[0][1] != c.want {
			t.Errorf("%v %s: %v, want %s", c.ports, c.attr, got, c.want)
		}
	}
	env := plugintest.Env(time.Now)
	env.Attr = json.RawMessage(`{"https_port":"x"}`)
	if _, err := Plugin.Compile([]byte(`{"http_to_https":true}`), env); err == nil {
		t.Error("a port that is none was taken")
	}
}

// The path is decoded: it must not become another header.
func TestInjection(t *testing.T) {
	ctx := plugintest.NewCtx("/a")
	ctx.Path = "/a\r\nSet-Cookie: x=1"
	plugintest.Send(compiled(t, `{"uri":"$uri"}`, nil), ctx)
	for _, f := range ctx.ReplyHeader() {
		ctx.Request.Header.Set(f[0], f[1])
	}
	if v, _ := ctx.Request.Header.Get("Location"); v != "/a%0D%0ASet-Cookie: x=1" {
		t.Errorf("%q", v)
	}
}

func TestTooLong(t *testing.T) {
	ctx := plugintest.NewCtx("/" + strings.Repeat("a", 60) + "!")
	if r := plugintest.Send(compiled(t, `{"regex_uri":["^/(?=(a+)+$)a","/x"]}`, nil), ctx); r == nil || r.Status != 500 {
		t.Errorf("%+v", r)
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Invalid: "value should match only one schema, but matches none"},
		{Name: "two", Config: `{"uri":"/a","http_to_https":true}`, Invalid: "value should match only one schema, but matches both schemas 1 and 3"},
		{Name: "code", Config: `{"uri":"/a","ret_code":199}`, Invalid: `property "ret_code" validation failed: expected 199 to be at least 200`},
		{Name: "uri", Config: `{"uri":"a"}`, Invalid: `property "uri" validation failed: string too short, expected at least 2, got 1`},
		{Name: "pattern", Config: `{"regex_uri":["(","b"]}`, Invalid: `invalid regex_uri ((, b), err:pcre_compile() failed: missing ) in "("`},
		{Name: "replacement", Config: `{"regex_uri":["a","$"]}`, Invalid: "invalid regex_uri (a, $), err:"},
		{Name: "query", Config: `{"http_to_https":true,"append_query_string":true}`, Invalid: "only one of `http_to_https` and `append_query_string` can be configured."},
	})
}

func TestAllocations(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	for _, c := range []struct {
		conf string
		want float64
	}{
		{`{"http_to_https":true}`, 0},
		{`{"uri":"/x$uri","encode_uri":true,"append_query_string":true}`, 0},
		{`{"regex_uri":["^/no","/x"]}`, 0},
	} {
		ph := compiled(t, c.conf, nil)
		ctx := plugintest.NewCtx("/a?b")
		if n := testing.AllocsPerRun(100, func() {
			ctx.Reset()
			ctx.Path = "/a"
			plugintest.Send(ph, ctx)
		}); n != c.want {
			t.Errorf("%s: %v allocations, want %v", c.conf, n, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`/$uri${uri}\$uri\$$`)
	f.Fuzz(func(t *testing.T, s string) {
		tmpl, err := parse(s)
		if err != nil {
			return // a post_arg path
		}
		if !strings.ContainsAny(s, `$\`) && string(tmpl.append(nil, plugintest.NewCtx("/"))) != s {
			t.Errorf("%q changed", s)
		}
	})
}
