package proxyrewrite

import (
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func request(target string) *plugin.Ctx { return plugintest.NewCtx(target) }

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func TestTarget(t *testing.T) {
	for _, c := range []struct{ conf, target, path, want string }{
		{`{"uri":"/new"}`, "/old", "", "/new"},
		{`{"uri":"/new"}`, "/old?a=%20b", "", "/new?a=%20b"},
		{`{"uri":"/new?x=1"}`, "/old?a=b", "", "/new?x=1&a=b"},
		{`{"uri":"/$arg_a/${arg_b}?q=$arg_a"}`, "/old?a=1%202", "", "/1%202/?q=1%202&a=1%202"},
		{`{"uri":"/$uri/remain"}`, "/a%3fb%26c", "/a?b&c\r\n", "//a%253Fb&c%0D%0A/remain"},
		{`{"uri":"/x?u=$uri"}`, "/a", "/a\r\n?=", "/x?u=/a%0D%0A%3F="},
		{`{"host":"b.test"}`, "/a%2Fb%3Fc?d", "/a/b?c", "/a/b%3Fc?d"},
		{`{"regex_uri":["^/api(/.*)","$1"]}`, "/api/v1/%3CN%3E", "/api/v1/<N>", "/v1/%3CN%3E"},
		{`{"regex_uri":["/w1","/"]}`, "/w1/t", "", "//t"},
		{`{"regex_uri":["^/w1/?(.*)","/$1"]}`, "/w1/t", "", "/t"},
		{`{"regex_uri":["^/(\\w+)/(\\w+)","/${2}_$1?x=$1"]}`, "/a/b/c?y", "", "/b_a?x=a/c&y"},
		{`{"regex_uri":["^/(.*)","/x?y=$1"]}`, "/a%3Fb", "/a?b", "/x%3Fy=a%3Fb"},
		{`{"regex_uri":["^/no","/1","^/b","/2","^/b","/3"]}`, "/b/c", "", "/2/c"},
		{`{"regex_uri":["^/no","/1"]}`, "/b c", "/b c", "/b%20c"},
		{`{"regex_uri":["(?i)^/B(?=/)","/x"]}`, "/b/c", "", "/x/c"},
		{`{"uri":"/u","regex_uri":["^/","/r"]}`, "/b", "", "/u"},
		{`{"use_real_request_uri_unsafe":true}`, "/p/a%2Fb/../c?d=%20", "/p/a/c", "/p/a%2Fb/../c?d=%20"},
		{`{"use_real_request_uri_unsafe":true,"uri":"/new"}`, "/p?a=%2F", "", "/new?a=%2F"},
		{`{"use_real_request_uri_unsafe":true,"uri":"/new?b"}`, "/p?a", "", "/new?b&a"},
		{`{"use_real_request_uri_unsafe":true,"uri":"/n$uri"}`, "/p", "/p\r\nx: y", "/n/p%0D%0Ax:%20y"},
		{`{"use_real_request_uri_unsafe":true,"regex_uri":["/hello/(.+)","/hello?u=$1"]}`, "/hello/%ED%85?a", "", "/hello?u=%ED%85?a"},
		{`{"use_real_request_uri_unsafe":false,"uri":"/é"}`, "/", "", "/%C3%A9"},
	} {
		ctx := request(c.target)
		if c.path != "" {
			ctx.Path = c.path
		}
		if r := plugintest.Send(compiled(t, c.conf), ctx); r != nil || ctx.To.Target != c.want {
			t.Errorf("%s on %s: %q, want %q; %v", c.conf, c.target, ctx.To.Target, c.want, r)
		}
	}
}

// A query that an earlier plugin has changed is the one that goes on.
func TestChangedQuery(t *testing.T) {
	ctx := request("/old?key=secret&a=1")
	ctx.DelQuery("key")
	plugintest.Send(compiled(t, `{"uri":"/new"}`), ctx)
	if ctx.To.Target != "/new?a=1" {
		t.Errorf("%q", ctx.To.Target)
	}
}

func TestHostAndMethod(t *testing.T) {
	ctx := request("/")
	plugintest.Send(compiled(t, `{"host":"b.test:81","method":"POST"}`), ctx)
	if ctx.To.Host != "b.test:81" || ctx.To.Method != "POST" {
		t.Errorf("%+v", ctx.To)
	}
	ctx = request("/")
	plugintest.Send(compiled(t, `{"uri":"/x"}`), ctx)
	if ctx.To.Host != "" || ctx.To.Method != "" {
		t.Errorf("%+v", ctx.To)
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		conf, sent, want string
	}{
		{`{"headers":{"X-A":"1","X-B":2}}`, "X-A: 0", "X-A: 1|X-B: 2"},
		{`{"headers":{"set":{"X-A":["1",2]}}}`, "X-A: 0", "X-A: 1|X-A: 2"},
		{`{"headers":{"add":{"X-A":["1",2],"X-B":"3"}}}`, "X-A: 0", "X-A: 0|X-A: 1|X-A: 2|X-B: 3"},
		{`{"headers":{"add":{"X-A":"1"},"set":{"X-A":"2"},"remove":["x-b"]}}`, "X-B: 0", "X-A: 2"},
		{`{"headers":{"X-A":"$remote_addr:$arg_none.","X-B":"","X-C":"$arg_none"}}`, "X-B: 0", "X-A: 127.0.0.1:"},
		{`{"headers":{"X-A":"${arg_none ?? none}$http_x_b"}}`, "X-B: b", "X-B: b|X-A: noneb"},
		{`{"headers":{"X-A":"$http_x_b"}}`, "X-B: a\r\nX-Evil: 1", "X-B: a%0D%0AX-Evil: 1|X-A: a%0D%0AX-Evil: 1"},
		{`{"regex_uri":["^/(\\w+)/(\\w+)","/"],"headers":{"X-A":"$1-${2}x$3|\\$1 $1abc"}}`, "", `X-A: a-bx|\$1 aabc`},
		{`{"headers":{"X-A":"a$1b"}}`, "", "X-A: ab"},
		{`{"headers":{"X-A":"<$http_x_a>"}}`, "X-A: 0", "X-A: <0>"},
		{`{"headers":{"set":{"X-A":["<$http_x_a>","1"]}}}`, "X-A: 0", "X-A: <0>|X-A: 1"},
		{`{"headers":{"set":"1"}}`, "", "set: 1"},
	} {
		ctx := request("/a/b")
		if name, value, ok := strings.Cut(c.sent, ": "); ok {
			ctx.Request.Header.Add(name, value)
		}
		plugintest.Send(compiled(t, c.conf), ctx)
		got := strings.TrimSuffix(strings.ReplaceAll(string(ctx.Request.Header.AppendTo(nil)), "\r\n", "|"), "|")
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.conf, got, c.want)
		}
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "nothing", Config: `{"uri":""}`, Invalid: `property "uri" validation failed: string too short, expected at least 1, got 0`},
		{Name: "uri", Config: `{"uri":"home"}`, Invalid: `property "uri" validation failed: failed to match pattern "^\\/.*" with "home"`},
		{Name: "method", Config: `{"method":"GOT"}`, Invalid: `property "method" validation failed: matches none of the enum values`},
		{Name: "host", Config: `{"host":"a/b"}`, Invalid: `property "host" validation failed: failed to match pattern`},
		{Name: "odd", Config: `{"regex_uri":["a","b","c"]}`, Invalid: "The length of regex_uri should be an even number"},
		{Name: "one", Config: `{"regex_uri":["a"]}`, Invalid: `property "regex_uri" validation failed: expect array to have at least 2 items`},
		{Name: "pattern", Config: `{"regex_uri":["^/a(","b"]}`, Invalid: `invalid regex_uri(^/a(, b): pcre_compile() failed: missing ) in "^/a("`},
		{Name: "replacement", Config: `{"regex_uri":["^/a","$x"]}`, Invalid: "invalid regex_uri(^/a, $x): "},
		{Name: "field", Config: `{"headers":{"X A":"1"}}`, Invalid: "invalid field character in header"},
		{Name: "value", Config: `{"headers":{"X":"1\n"}}`, Invalid: "invalid value character in header"},
		{Name: "headers", Config: `{"headers":{}}`, Invalid: `property "headers" validation failed: value should match only one schema, but matches none`},
		{Name: "other header", Config: `{"headers":{"set":{"a":true}}}`, Invalid: `property "headers" validation failed: value should match only one schema, but matches none`},
	})
}

// What cannot be decided in time is an error, not a wrong target.
func TestTooLong(t *testing.T) {
	ctx := request("/" + strings.Repeat("a", 60) + "!")
	r := plugintest.Send(compiled(t, `{"regex_uri":["^/(?=(a+)+$)a","/x"]}`), ctx)
	if r == nil || r.Status != 500 || !strings.HasPrefix(string(r.Body), `{"error_msg":"failed to match the uri /aaa`) {
		t.Errorf("%+v", r)
	}
}

func TestAllocations(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	for _, c := range []struct {
		conf string
		want float64
	}{
		{`{"uri":"/new/$arg_a","headers":{"set":{"X-A":"$remote_addr","X-B":"c"},"remove":["X-C"]}}`, 0},
		{`{"regex_uri":["^/(\\w+)","/x/$1"]}`, 1}, // the positions of the match
		{`{"regex_uri":["^/no","/x"]}`, 0},
	} {
		ph := compiled(t, c.conf)
		ctx := request("/old?a=1")
		if n := testing.AllocsPerRun(100, func() {
			ctx.Reset()
			ctx.Path = "/old"
			ctx.Request.Header.Reset()
			plugintest.Send(ph, ctx)
		}); n != c.want {
			t.Errorf("%s: %v allocations, want %v", c.conf, n, c.want)
		}
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("/a?b=c", "/a", `^/(.*)`, "/x?$1")
	f.Fuzz(func(t *testing.T, target, path, pattern, with string) {
		if target == "" || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return // the parser refuses it
		}
		pairs, err := compilePairs([]string{pattern, with})
		if err != nil {
			return
		}
		for _, r := range []*rewriter{{pairs: pairs}, {pairs: pairs, unsafe: true}, {}} {
			ctx := request(target)
			ctx.Path = path
			if r.rewrite(ctx) == nil && strings.ContainsAny(ctx.To.Target, "\x00\r\n ") {
				t.Errorf("%q", ctx.To.Target)
			}
		}
	})
}
