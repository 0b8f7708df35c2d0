package expr

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// parsed is a request as it comes from the wire: its fields are classified.
func parsed(t *testing.T, head string) *plugin.Ctx {
	t.Helper()
	c := &plugin.Ctx{Request: new(wire.Request), Scheme: "http"}
	var in wire.Reader
	in.Reset(reader(head), wire.DefaultLimits())
	if err := in.ReadRequest(c.Request); err != nil {
		t.Fatal(err)
	}
	return c
}

type bytesReader struct{ rest []byte }

func reader(s string) *bytesReader { return &bytesReader{[]byte(s)} }

func (r *bytesReader) Read(p []byte) (int, error) {
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func check(t *testing.T, what string, c *plugin.Ctx, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got, _ := readVar(c, name); got != value {
			t.Errorf("%s: %s is %q, want %q", what, name, got, value)
		}
	}
}

func TestHeadersOnTheirWay(t *testing.T) {
	c := parsed(t, "GET / HTTP/1.1\r\nHost: A:1\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Proto: https\r\n"+
		"Forwarded: for=3.3.3.3\r\nX-Real-IP: 4.4.4.4\r\nConnection: keep-alive\r\nX-Consumer-Username: eve\r\nX-Mine: a\r\nX_mine: b\r\n\r\n")
	check(t, "as received", c, map[string]string{
		"http_host": "A:1", "http_x_forwarded_for": "1.1.1.1, 2.2.2.2", "http_x_forwarded_proto": "https", "http_x_real_ip": "4.4.4.4",
		"http_x_consumer_username": "eve", "http_connection": "keep-alive", "http_x_mine": "a, b", "http_forwarded": "for=3.3.3.3",
	})
	// What the engine vouches for takes the place of what was said.
	drop(c, wire.KnownXForwardedProto, wire.KnownForwarded)
	c.Request.Header.Add("X-Forwarded-Proto", "http")
	vouched := map[string]string{
		"http_x_forwarded_proto": "http", "http_forwarded": missing, "original_x_forwarded_proto": "https",
		"original_forwarded": "for=3.3.3.3", "original_x_forwarded_for": "1.1.1.1, 2.2.2.2", "original_x_forwarded_host": missing,
	}
	check(t, "vouched for", c, vouched)
	// An untrusted chain is gone.
	drop(c, wire.KnownXForwardedFor)
	check(t, "untrusted", c, map[string]string{"http_x_forwarded_for": missing, "original_x_forwarded_for": "1.1.1.1, 2.2.2.2"})
	// What ends here is still in the log.
	drop(c, wire.KnownXRealIP, wire.KnownConnection)
	c.Sent.Tries = []plugin.Try{{Addr: "10.0.0.1:80"}}
	check(t, "after proxying", c, map[string]string{
		"http_x_real_ip": "4.4.4.4", "http_connection": "keep-alive", "http_x_forwarded_for": "1.1.1.1, 2.2.2.2", "http_forwarded": missing,
	})
	c.DelHeader("X-Mine")
	c.SetHeader("X-Real-IP", "5.5.5.5")
	c.Consumer = &plugin.Consumer{Name: "jack"}
	check(t, "edited", c, map[string]string{
		"http_x_mine": "b", "http_x_real_ip": "5.5.5.5", "http_x_consumer_username": "jack", "http_x_credential_identifier": missing,
	})
}

func drop(c *plugin.Ctx, names ...wire.Known) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		for _, name := range names {
			if fields[i].Known.Name() == name {
				fields[i].Dropped = true
			}
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	c := request()
	c.Response = &wire.Response{Status: 200, Length: 12}
	h := &c.Response.Header
	for _, f := range [][2]string{{"Server", "nginx"}, {"X-A", "1"}, {"X-A", "2"}, {"Set-Cookie", "a=1; Path=/"}, {"set-cookie", "b = 2"}, {"Set-Cookie", "a=3"}} {
		h.Add(f[0], f[1])
	}
	check(t, "no answer of an upstream", c, map[string]string{"upstream_http_server": missing, "sent_http_server": "nginx", "sent_http_content_length": "12"})
	c.Sent.Source = plugin.FromUpstream
	h.Set("Server", "Weir")
	h.Set("X-A", "3")
	h.Set("X-B", "4")
	check(t, "edited", c, map[string]string{
		"sent_http_server": "Weir", "upstream_http_server": "nginx", "sent_http_x_a": "3", "upstream_http_x_a": "1, 2", "sent_http_X-B": "4",
		"upstream_cookie_a": "3", "upstream_cookie_b": " 2", "upstream_cookie_c": missing,
	})
	c.Response.Length = wire.Chunked
	check(t, "chunked", c, map[string]string{"sent_http_content_length": missing})
}

func TestPluginVars(t *testing.T) {
	c := request()
	for _, name := range []string{"my_own", "rate_limiting_info", "request_line", "apisix_request_id", "llm_stream", "uri"} {
		c.SetVar(name, "set")
	}
	c.SetVar("my_own", "again")
	for name, want := range map[string]string{
		"my_own": "again", "rate_limiting_info": "set", "request_line": "set", "apisix_request_id": "set", "llm_stream": "set", "uri": "/c", "other": missing,
	} {
		v, err := Variable(name)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := v.Value(c)
		if !ok {
			got = missing
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if ok, err := match(t, `[["my_own","==","again"],["other","==",null]]`, c); !ok || err != nil {
		t.Error(ok, err)
	}
	c.Reset()
	if ok, _ := match(t, `[["my_own","==",null],["llm_stream","==","false"]]`, c); !ok {
		t.Error("the next request sees what was set")
	}
}
