package expr

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// request is a finished request with something in every field.
func request() *plugin.Ctx {
	r := &wire.Request{
		Method: "GET", Target: "/a%20b/../c?x=1&y=%41+b&x=2&flag", Proto: wire.HTTP11, Host: "Example.COM:9080",
	}
	for _, f := range [][2]string{
		{"Host", "Example.COM:9080"}, {"User-Agent", "curl/8"}, {"X-Many", "a"}, {"x-many", "b"},
		{"Cookie", "s=1; t=2=3 ; twice=a"}, {"Cookie", "u=4;twice=b c"}, {"Authorization", "Basic amFjazpwdw=="}, {"Content-Type", "text/plain"},
	} {
		r.Header.Add(f[0], f[1])
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	c := &plugin.Ctx{
		Request: r, Path: "/c", Scheme: "https", Client: "192.0.2.7", ClientPort: 4321, Start: start,
		Peer:     netip.MustParseAddrPort("[::ffff:192.0.2.1]:4321"),
		Server:   netip.MustParseAddrPort("[2001:db8::1]:9443"),
		Route:    &plugin.Route{ID: "r1", Name: "route", ServiceID: "s1", ServiceName: "service"},
		Consumer: &plugin.Consumer{Name: "jack"},
		Response: &wire.Response{Status: 201},
		Sent: plugin.Outcome{
			Status: 200, BodyBytes: 10, Bytes: 123, Received: 77, End: start.Add(1234567 * time.Microsecond),
			Tries: []plugin.Try{
				{Addr: "10.0.0.1:80", Total: time.Second},
				{Addr: "[2001:db8::2]:81", Scheme: "http", Host: "node", Status: 200, Connect: 1e6, Header: 2e6, Total: 34e6},
			},
		},
	}
	c.Response.Header.Add("Content-Type", "text/html")
	return c
}

const missing = "(absent)"

func TestVars(t *testing.T) {
	c := request()
	for name, want := range map[string]string{
		"remote_addr": "192.0.2.7", "remote_port": "4321", "realip_remote_addr": "192.0.2.1", "realip_remote_port": "4321",
		"server_addr": "2001:db8::1", "server_port": "9443", "server_protocol": "HTTP/1.1", "remote_user": "jack",
		"host": "example.com", "http_host": "Example.COM:9080", "http_user_agent": "curl/8", "http_x_many": "a, b",
		"http_cookie": "s=1; t=2=3 ; twice=a; u=4;twice=b c", "http_none": missing, "HTTP_X": "error", "http_X-Many": "a, b", "content_type": "text/plain",
		"content_length": missing, "sent_http_content_type": "text/html", "sent_http_none": missing,
		"uri": "/c", "request_uri": "/c?x=1&y=%41+b&x=2&flag", "real_request_uri": "/a%20b/../c?x=1&y=%41+b&x=2&flag",
		"args": "x=1&y=%41+b&x=2&flag", "query_string": "x=1&y=%41+b&x=2&flag", "is_args": "?",
		"arg_x": "1", "arg_y": "A b", "arg_flag": "true", "arg_none": missing,
		"cookie_s": "1", "cookie_t": "2=3", "cookie_twice": "b", "cookie_u": "4", "cookie_S": missing,
		"request": "GET /a%20b/../c?x=1&y=%41+b&x=2&flag HTTP/1.1", "request_method": "GET", "method": "GET",
		"scheme": "https", "https": "on", "status": "200", "bytes_sent": "123", "body_bytes_sent": "10", "request_length": "77",
		"request_time": "1.234", "time_local": "02/Jan/2026:03:04:06 +0000", "time_iso8601": "2026-01-02T03:04:06+00:00",
		"msec": "1767323046.240", "upstream_addr": "10.0.0.1:80, [2001:db8::2]:81", "upstream_status": "-, 200",
		"upstream_connect_time": "-, 0.001", "upstream_header_time": "-, 0.002", "upstream_response_time": "1.000, 0.034",
		"upstream_scheme": "http", "upstream_host": "node", "upstream_uri": "",
		"balancer_ip": "2001:db8::2", "balancer_port": "81", "consumer_name": "jack", "consumer_group_id": missing,
		"route_id": "r1", "route_name": "route", "service_id": "s1", "service_name": "service",
		"server_name": "_", "document_uri": "/c", "binary_remote_addr": "\xc0\x00\x02\x07", "request_line": "GET /a%20b/../c?x=1&y=%41+b&x=2&flag HTTP/1.1",
		"rate_limiting_info": missing, "resp_body": "", "llm_stream": "false", "request_type": "traditional_http", "llm_tool_count": "0",
		"upstream_http_content_type": missing, "upstream_cookie_a": missing, "sent_http_content_length": "0", "uri_param_id": missing,
		"post_arg_a": missing, "post_arg.a": missing, "graphql_name": missing, "apisix_upstream_response_time": "1.000, 0.034",
		"upstream_unresolved_host": "2001:db8::2", "original_forwarded": missing, "http_x_forwarded_proto": missing, "ssl_protocol": missing,
		"": "error", "http_": "error", "no_such": "error",
	} {
		got, value := readVar(c, name)
		if got != want || value != want {
			t.Errorf("%s: Append %q, Value %q, want %q", name, got, value, want)
		}
	}
}

// readVar reads a variable in both ways.
func readVar(c *plugin.Ctx, name string) (appended, value string) {
	v, err := Lookup(name)
	if err != nil {
		return "error", "error"
	}
	b, ok := v.Append([]byte("before"), c)
	appended = strings.TrimPrefix(string(b), "before")
	if !ok && appended == "" {
		appended = missing
	}
	value, ok = v.Value(c)
	if !ok && value == "" {
		value = missing
	}
	return appended, value
}

func TestEveryVarOfAnEmptyRequest(t *testing.T) {
	c := &plugin.Ctx{Request: &wire.Request{}}
	for name := range vars {
		readVar(c, name)
	}
	for name, want := range map[string]string{
		"status": "000", "upstream_addr": missing, "upstream_status": missing, "upstream_response_time": missing,
		"remote_user": missing, "host": missing, "http_host": missing, "args": missing, "is_args": "", "balancer_ip": missing,
		"consumer_name": missing, "route_id": missing, "sent_http_x": missing, "request": missing,
	} {
		if got, value := readVar(c, name); got != want || value != want {
			t.Errorf("%s: %q, %q, want %q", name, got, value, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	c := request()
	a, _ := readVar(c, "apisix_request_id")
	b, _ := readVar(c, "request_id")
	if len(a) != 32 || a != b || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("%q, %q", a, b)
	}
	c.Reset()
	if next, _ := readVar(c, "request_id"); next == a {
		t.Error("the next request has the same id")
	}
}

func TestHostname(t *testing.T) {
	want, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if got, _ := readVar(request(), "hostname"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestHostAndUser(t *testing.T) {
	for host, want := range map[string]string{"A": "a", "a:1": "a", "[::1]:80": "[::1]", "[::1]": "[::1]"} {
		if got, _ := readVar(&plugin.Ctx{Request: &wire.Request{Host: host}}, "host"); got != want {
			t.Errorf("host %q: %q, want %q", host, got, want)
		}
	}
	for value, want := range map[string]string{
		"basic amFjazpwdw==": "jack", "Basic  amFjazpwdw==": "jack", "Basic amFjaw==": missing, "Basic ???": missing,
		"Bearer amFjazpwdw==": missing, "Basic ": missing, "Basic Og==": "",
	} {
		c := &plugin.Ctx{Request: &wire.Request{}}
		c.SetHeader("Authorization", value)
		if got, _ := readVar(c, "remote_user"); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"plain":                         "plain",
		"$remote_addr":                  "192.0.2.7",
		"a$remote_addr-b":               "a192.0.2.7-b",
		"${remote_addr}b":               "192.0.2.7b",
		"${ arg_none ?? x y }":          "x y",
		"${arg_none??}|":                "|",
		"${arg_none ?? x ?? y}":         "x",
		"${arg_none}":                   "",
		"${arg_x ?? z}":                 "1",
		"${arg_flag ?? z}":              "true",
		"${ host }":                     "example.com",
		`\$remote_addr`:                 `\$remote_addr`,
		`\\$remote_addr`:                `\\$remote_addr`,
		`\n$`:                           `\n$`,
		"$ $-":                          "$ $-",
		"${":                            "${",
		"${}":                           "${}",
		"${host":                        "${host",
		"$host$host}":                   "example.comexample.com}",
		"$nope|$no.pe|${a-b}|":          "|||",
		"$mine":                         "of a plugin",
		"$arg_y|$http_x_many":           "A b|a, b",
		"$scheme://$host:$server_port$": "https://example.com:9443$",
		"${http_x-many}":                "a, b",
	} {
		tpl, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		c := request()
		c.SetVar("mine", "of a plugin")
		if got := string(tpl.Append(nil, c)); got != want || tpl.Value(c) != want {
			t.Errorf("%q: %q, %q, want %q", text, got, tpl.Value(c), want)
		}
		if tpl.Fixed() && text != want {
			t.Errorf("%q: Fixed is %v", text, tpl.Fixed())
		}
	}
	if _, err := Parse("ab $a ${post_arg.a[}"); err == nil || !strings.Contains(err.Error(), "at character 7: invalid expression") {
		t.Errorf("a wrong path: %v", err)
	}
	tpl, _ := Parse("$host ${post_arg.a}")
	if none, _ := Parse("$host"); !tpl.ReadsBody() || none.ReadsBody() {
		t.Error("ReadsBody is wrong")
	}
}

func TestAllocations(t *testing.T) {
	tpl, err := Parse("$remote_addr $remote_user $arg_y $http_x_many $request $request_time $upstream_addr $apisix_request_id")
	if err != nil {
		t.Fatal(err)
	}
	c, dst := request(), make([]byte, 0, 1024)
	run := func() {
		dst = tpl.Append(dst[:0], c)
		c.Sent.Tries = c.Sent.Tries[:2]
		_ = tpl.Value(c)
		tries, start, route := c.Sent.Tries, c.Start, c.Route
		c.Reset()
		c.Path, c.Start, c.Route, c.Sent.Tries = "/c", start, route, tries
	}
	run()
	if n := testing.AllocsPerRun(200, run); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"$host", "${host ?? a}", `\$a$`, "${", "${}", "$arg_a.b"} {
		f.Add(s)
	}
	c := request()
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := Parse(text)
		if err != nil {
			return
		}
		out := tpl.Append(nil, c)
		if tpl.Fixed() && string(out) != text {
			t.Errorf("%q became %q", text, out)
		}
		c.Reset()
	})
}

func TestAppendEach(t *testing.T) {
	tmpl, err := Parse("/$uri?${arg_none ?? x?}$arg_no")
	if err != nil {
		t.Fatal(err)
	}
	c := request()
	c.Path = "/a?b"
	got := tmpl.AppendEach([]byte(">"), c, func(dst []byte, from int) []byte {
		return append(dst[:from], strings.ReplaceAll(string(dst[from:]), "?", "%3F")...)
	})
	if string(got) != ">//a%3Fb?x%3F" {
		t.Errorf("%s", got)
	}
}
