package engine

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"weir/internal/plugin"
)

// TestBodyVars: a route is found by its body, which then goes upstream whole.
func TestBodyVars(t *testing.T) {
	up := echo(t)
	g := start(t, func(cfg *Config) { cfg.BodyLimits = plugin.Limits{PostArgs: 100, GraphQL: 100} })
	g.put("routes/openai", route("/v", up.addr, `,"priority":9,"vars":[["post_arg.model","==","openai"]],"plugins":{"probe":{"route":"openai"}}`),
		"routes/form", route("/v", up.addr, `,"priority":8,"vars":[["post_arg_model","~~","^a"]],"plugins":{"probe":{"route":"form"}}`),
		"routes/query", route("/v", up.addr, `,"priority":7,"vars":[["graphql_root_fields","has","owner"]],"plugins":{"probe":{"route":"query"}}`),
		"routes/any", route("/v", up.addr, `,"plugins":{"probe":{"route":"any"}}`))
	long := strings.Repeat("x", 300)
	const json, form = "application/json", "application/x-www-form-urlencoded"
	for _, c := range []struct{ kind, body, want string }{
		{json, `{"model":"openai"}`, "openai"},
		{json, `{"model":"other"}`, "any"},
		{json, `{"model":"openai","p":"` + long + `"}`, "any"}, // above the limit: not looked at
		{json, `{"model":`, "any"},
		{json, ``, "any"},
		{form, "model=alpha", "form"},
		{form, "model=openai", "openai"},
		{form, "model=alpha&p=" + long, "any"},
		{"application/graphql", "query { owner { name } }", "query"},
		{json, `{"query":"{repo owner}"}`, "query"},
		{"text/plain", "query { owner { a } } #" + long, "any"},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %.30s %v", c.kind, c.body, chunked), func(t *testing.T) {
				x := g.dial()
				defer x.Close()
				if chunked {
					x.send("POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", c.kind)
					for i := range len(c.body) { // so that it does not come with its head
						x.send("1\r\n%s\r\n", c.body[i:i+1])
					}
					x.send("0\r\n\r\n")
				} else {
					x.send("POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", c.kind, len(c.body), c.body)
				}
				r, got := x.answer("POST")
				if r.StatusCode != 200 || r.Header.Get("X-Route") != c.want || !strings.HasSuffix(unchunked(got), c.body) {
					t.Errorf("%d, route %q, upstream got %q", r.StatusCode, r.Header.Get("X-Route"), got)
				}
				x.send("GET /v HTTP/1.1\r\nHost: a\r\n\r\n")
				if r, _ := x.answer("GET"); r.StatusCode != 200 || r.Header.Get("X-Route") != "any" {
					t.Errorf("the next request: %d, route %q", r.StatusCode, r.Header.Get("X-Route"))
				}
			})
		}
	}
}

// unchunked is a request whose chunks have been put together.
func unchunked(s string) string {
	head, body, _ := strings.Cut(s, "\r\n\r\n")
	if !strings.Contains(head, "chunked") {
		return s
	}
	var b strings.Builder
	for {
		size, rest, _ := strings.Cut(body, "\r\n")
		var n int
		if fmt.Sscanf(size, "%x", &n); n == 0 {
			return b.String()
		}
		b.WriteString(rest[:n])
		body = rest[n+2:]
	}
}

// A body that cannot be read while the route is looked for ends the request.
func TestBodyVarsOfABrokenBody(t *testing.T) {
	up := echo(t)
	g := start(t, func(cfg *Config) { cfg.MaxBody = 50 })
	g.put("routes/1", route("/v", up.addr, `,"priority":9,"vars":[["post_arg.a","==","x"]]`), "routes/2", route("/v", up.addr, ""))
	const head = "POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	for body, want := range map[string]int{
		"1\r\n{\r\nzz\r\n": 400,
		"50\r\n" + strings.Repeat("x", 0x50) + "\r\n0\r\n\r\n": 413,
		"1\r\n{\r\n0\r\n\r\n": 200,
	} {
		x := g.dial()
		x.send("%s%s", head, body)
		if r, _ := x.answer("POST"); r.StatusCode != want {
			t.Errorf("%.20q: %d, want %d", body, r.StatusCode, want)
		}
		x.Close()
	}
	if n := len(up.heads()); n != 1 {
		t.Errorf("%d requests reached the upstream, want 1", n)
	}
}

// A client that waits for 100 Continue gets it when a route asks for the body.
func TestBodyVarsContinue(t *testing.T) {
	up := echo(t)
	g := start(t, func(cfg *Config) { cfg.BodyLimits.PostArgs = 1000 })
	g.put("routes/1", route("/v", up.addr, `,"vars":[["post_arg.a","==","x"]]`))
	x := g.dial()
	defer x.Close()
	x.send("POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
	if r, _ := x.answer("POST"); r.StatusCode != 100 {
		t.Fatalf("%d, want 100", r.StatusCode)
	}
	x.send(`{"a":"x"}`)
	if r, _ := x.answer("POST"); r.StatusCode != 200 {
		t.Errorf("%d, want 200", r.StatusCode)
	}
	x.send("POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
	if r, _ := x.answer("POST"); r.StatusCode != 404 {
		t.Errorf("a body above the limit: %d, want 404 without asking for it", r.StatusCode)
	}
}

// A filter that reads the body is asked before the body leaves, even for a
// plugin that only logs; and what it says holds for all phases.
func TestFilterOfBody(t *testing.T) {
	up := echo(t)
	g := start(t, nil)
	g.put("routes/1", route("/v", up.addr, `,"plugins":{"probe":{"route":"r","_meta":{"filter":[["post_arg.a","==","x"]]}}}`))
	for body, want := range map[string]string{`{"a":"x"}`: "r", `{"a":"y"}`: ""} {
		before := probed.Load()
		x := g.dial()
		x.send("POST /v HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
		r, got := x.answer("POST")
		x.r.ReadByte() // the end: the log phase has run
		x.Close()
		if r.Header.Get("X-Route") != want || !strings.HasSuffix(got, body) || (probed.Load() > before) != (want != "") {
			t.Errorf("%s: route %q, %d logs, upstream got %q", body, r.Header.Get("X-Route"), probed.Load()-before, got)
		}
	}
}

// markPlugin has a Header phase alone.
var markPlugin = plugin.Define(plugin.Meta{Name: "mark", Doc: "Test plugin."}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Header: func(c *plugin.Ctx) { c.Response.Header.Set("X-Route", "r") }}, nil
})

// What the upstream answered is known when the response passes.
func TestFilterOfTheAnswer(t *testing.T) {
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		for {
			head, err := o.head(r)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 %.3s OK\r\nContent-Length: 0\r\nX-Up: %.3[1]s\r\n\r\n", strings.TrimPrefix(head, "GET /"))
		}
	})
	g := start(t, nil)
	filter := func(vars string) string { return `,"plugins":{"mark":{"_meta":{"filter":` + vars + `}}}` }
	g.put("routes/1", route("/200", up.addr, filter(`[["upstream_status","~=",200]]`)),
		"routes/2", route("/503", up.addr, filter(`[["upstream_status","~=",200],["status","==",503],["upstream_http_x_up","==","503"],["balancer_ip","==","127.0.0.1"]]`)),
		"routes/3", route("/502", "127.0.0.1:1", filter(`[["upstream_status","==","502"],["upstream_addr","==","127.0.0.1:1"]]`)))
	for path, want := range map[string]string{"/200": "", "/503": "r", "/502": "r"} {
		if r, _ := g.get(path); "/"+r.Status[:3] != path || r.Header.Get("X-Route") != want {
			t.Errorf("%s: %s, route %q, want %q", path, r.Status, r.Header.Get("X-Route"), want)
		}
	}
}
