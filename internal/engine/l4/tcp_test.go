package l4

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRelay(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{`+to(named(t, "n"))+`}`)
	if got, err := ask(g.dial(), "hello"); err != nil || got != "n:hello" {
		t.Errorf("%q, %v", got, err)
	}
	if got := g.lines(1)[0]; got != "TCP 200 7 5" {
		t.Error(got)
	}
	all := g.Stats()
	s := all[slices.IndexFunc(all, func(s PortStats) bool { return s.Addr == g.tcp.Addr().String() })]
	if s.FromClients != 5 || s.ToNodes != 5 || s.FromNodes != 7 || s.ToClients != 7 {
		t.Errorf("%+v", s)
	}
}

// TestBulk carries more than any buffer holds, both ways at once.
func TestBulk(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{`+to(node(t, echo))+`}`)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	c := g.dial()
	go func() {
		_, _ = c.Write(sent) // the comparison tells
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestMatch(t *testing.T) {
	g := start(t, Port{}, nil)
	port := g.tcp.Addr().(*net.TCPAddr).Port
	a, b := named(t, "a"), named(t, "b")
	for _, c := range []struct{ name, first, second, want string }{
		{"the first", `{`, `{`, "a"},
		{"another port", `{"server_port":1,`, `{`, "b"},
		{"this port", fmt.Sprintf(`{"server_port":%d,`, port), `{`, "a"},
		{"a port does not win", `{`, fmt.Sprintf(`{"server_port":%d,`, port), "a"},
		{"another client", `{"remote_addr":"127.0.0.2",`, `{`, "b"},
		{"a network", `{"remote_addr":"127.0.0.0/8",`, `{`, "a"},
		{"another address of ours", `{"server_addr":"127.0.0.9",`, `{`, "b"},
		{"this address", `{"server_addr":"127.0.0.1",`, `{`, "a"},
		{"a name without TLS", `{"sni":"a.com",`, `{`, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.put("stream_routes/1", c.first+to(a)+`}`, "stream_routes/2", c.second+to(b)+`}`)
			if got, err := ask(g.dial(), ""); err != nil || got != c.want+":" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, route, log string }{
		{"no route", `{"server_port":1,` + to("127.0.0.1:1") + `}`, "TCP 404 0 0"},
		{"a plugin", `{"plugins":{"ip-restriction":{"blacklist":["127.0.0.1"]}},` + to("127.0.0.1:1") + `}`, "TCP 403 0 0"},
		{"a guard that does not compile", `{"plugins":{"ip-restriction":{}},` + to("127.0.0.1:1") + `}`, "TCP 503 0 0"},
		{"an unknown plugin", `{"plugins":{"key-auth":{}},` + to("127.0.0.1:1") + `}`, "TCP 503 0 0"},
		{"no upstream", `{"upstream_id":"7"}`, "TCP 503 0 0"},
		{"no service", `{"service_id":"7",` + to("127.0.0.1:1") + `}`, "TCP 503 0 0"},
		{"no node", `{"upstream":{"nodes":{}}}`, "TCP 503 0 0"},
		{"an unreachable node", `{` + to("127.0.0.1:1") + `}`, "TCP 502 0 0"},
		{"a node without a port", `{"upstream":{"nodes":[{"host":"127.0.0.1","weight":1}]}}`, "TCP 503 0 0"},
		{"a protocol", `{"protocol":{"name":"redis"},` + to("127.0.0.1:1") + `}`, "TCP 503 0 0"},
		{"no MQTT", `{"plugins":{"mqtt-proxy":{"protocol_level":4}},` + to("127.0.0.1:1") + `}`, "TCP 503 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Port{}, nil)
			g.put("stream_routes/1", c.route)
			nc := g.dial()
			_, _ = io.WriteString(nc, "hello") // it may be refused before
			// Whether it sees an end or a reset depends on who is faster.
			if b, err := io.ReadAll(nc); err != nil && !errors.Is(err, syscall.ECONNRESET) || len(b) > 0 {
				t.Errorf("%q, %v", b, err)
			}
			if got := g.lines(1)[0]; got != c.log {
				t.Error(got)
			}
		})
	}
}

// TestRefusedSilent: who has sent nothing sees the end of the connection.
func TestRefusedSilent(t *testing.T) {
	g := start(t, Port{}, nil)
	if b, err := io.ReadAll(g.dial()); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestService(t *testing.T) {
	g := start(t, Port{}, nil)
	a, b := named(t, "a"), named(t, "b")
	get := func() string {
		got, _ := ask(g.dial(), "") // a refusal is an empty answer
		return got
	}
	g.put("services/1", `{`+to(a)+`,"plugins":{"key-auth":{}}}`, "stream_routes/1", `{"service_id":"1"}`)
	if got := get(); got != "a:" {
		t.Errorf("the service's upstream: %q", got)
	}
	g.put("services/1", `{`+to(b)+`}`)
	if got := get(); got != "b:" {
		t.Errorf("the service has changed: %q", got)
	}
	g.put("services/1", `{`+to(b)+`,"plugins":{"ip-restriction":{"blacklist":["127.0.0.1"]}}}`)
	if got := get(); got != "" {
		t.Errorf("the service has a guard: %q", got)
	}
	g.put("stream_routes/1", `{"service_id":"1","plugins":{"ip-restriction":{"whitelist":["127.0.0.1"]}}}`)
	if got := get(); got != "b:" {
		t.Errorf("the route's own wins: %q", got)
	}
	g.put("upstreams/1", `{"nodes":{"`+a+`":1}}`, "stream_routes/1", `{"upstream_id":"1"}`)
	if got := get(); got != "a:" {
		t.Errorf("an upstream by id: %q", got)
	}
	g.put("upstreams/1", `{"nodes":{"`+b+`":1}}`)
	if got := get(); got != "b:" {
		t.Errorf("the upstream has changed: %q", got)
	}
}

// TestChange: a session goes on as it began, whatever becomes of its route.
func TestChange(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{`+to(node(t, echo))+`}`)
	c := g.dial()
	exchange := func(text string) {
		t.Helper()
		got := make([]byte, len(text))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	exchange("one")
	g.put("stream_routes/1", `{`+to(named(t, "other"))+`}`)
	exchange("two")
	g.state.Apply(deletion(g.state.Current().Revision+1, "1"))
	exchange("three")
	if got, err := ask(c, "end"); err != nil || got != "end" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRetry(t *testing.T) {
	g := start(t, Port{}, nil)
	live := named(t, "n")
	g.put("stream_routes/1", `{"upstream":{"nodes":[{"host":"127.0.0.1","port":1,"weight":1,"priority":1},{"host":"127.0.0.1","port":`+
		live[strings.LastIndexByte(live, ':')+1:]+`,"weight":1}]}}`)
	for range 3 {
		if got, err := ask(g.dial(), "x"); err != nil || got != "n:x" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestIdle(t *testing.T) {
	g := start(t, Port{}, nil)
	silent := node(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	g.put("stream_routes/1", `{"upstream":{"nodes":{"`+silent+`":1},"timeout":{"connect":1,"send":0.2,"read":0.2}}}`)
	c := g.dial()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, errTimeout) {
		t.Errorf("%q, %v", b, err)
	}
	if got := g.lines(1)[0]; got != "TCP 502 0 5" {
		t.Error(got)
	}
}

func TestTLS(t *testing.T) {
	g := start(t, Port{TLS: true}, nil)
	object, _, roots := certificate(t, "*.a.com")
	g.put("ssls/1", object,
		"stream_routes/1", `{"sni":"*.a.com",`+to(named(t, "wildcard"))+`}`,
		"stream_routes/2", `{"sni":"x.a.com",`+to(named(t, "exact"))+`}`,
		"stream_routes/3", `{`+to(named(t, "any"))+`}`)
	get := func(name string) (string, error) {
		c, err := tls.Dial("tcp", g.tcp.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"mqtt"}})
		if err != nil {
			return "", err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patient))
		return ask(c, "hi")
	}
	for name, want := range map[string]string{"x.a.com": "exact:hi", "Y.a.com": "wildcard:hi"} {
		if got, err := get(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := get("b.com"); err == nil {
		t.Error("a name without a certificate")
	}
	g.state.Apply(deletion(g.state.Current().Revision+1, "1", "2"))
	if got, err := get("x.a.com"); err != nil || got != "any:hi" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTLSUpstream(t *testing.T) {
	object, pair, roots := certificate(t, "a.com")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	at := serveOn(t, l, func(c net.Conn) {
		if b, err := io.ReadAll(c); err == nil {
			fmt.Fprintf(c, "%s asked for: %s", c.(*tls.Conn).ConnectionState().ServerName, b)
		}
	})
	g := start(t, Port{TLS: true}, nil)
	g.put("ssls/1", object, "stream_routes/1", `{"upstream":{"scheme":"tls","nodes":{"`+at+`":1}}}`)
	c, err := tls.Dial("tcp", g.tcp.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "a.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patient))
	if got, err := ask(c, "hi"); err != nil || got != "a.com asked for: hi" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPlugins(t *testing.T) {
	g := start(t, Port{}, nil)
	a, b := named(t, "a"), named(t, "b")
	const connect = "\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo"
	g.put("stream_routes/1", `{"plugins":{"mqtt-proxy":{"protocol_level":4}},"upstream":{"type":"chash","key":"mqtt_client_id","nodes":{"`+a+`":1}}}`)
	if got, err := ask(g.dial(), connect); err != nil || got != "a:"+connect {
		t.Errorf("mqtt-proxy: %q, %v", got, err)
	}
	g.put("upstreams/1", `{"nodes":{"`+b+`":1}}`,
		"stream_routes/1", `{"plugins":{"traffic-split":{"rules":[{"match":[{"vars":[["route_id","==","1"]]}],"weighted_upstreams":[{"upstream_id":"1"}]}]}},`+to(a)+`}`)
	if got, err := ask(g.dial(), ""); err != nil || got != "b:" {
		t.Errorf("traffic-split by id: %q, %v", got, err)
	}
	g.put("stream_routes/1", `{"plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream":{"type":"roundrobin","nodes":{"`+b+`":1}}}]}]}},`+to(a)+`}`)
	if got, err := ask(g.dial(), ""); err != nil || got != "b:" {
		t.Errorf("traffic-split with an upstream: %q, %v", got, err)
	}
	g.put("stream_routes/1", `{"plugins":{"limit-conn":{"conn":1,"burst":0,"default_conn_delay":0.01,"key":"remote_addr"}},`+to(node(t, echo))+`}`)
	first := g.dial()
	fmt.Fprint(first, "x")
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(g.dial(), "x"); err == nil {
		t.Errorf("limit-conn: %q", got)
	}
	g.lines(4) // all but the first
	first.Close()
	g.lines(5)
	if got, err := ask(g.dial(), "x"); err != nil || got != "x" {
		t.Errorf("limit-conn after the first: %q, %v", got, err)
	}
}

// TestFirstBytes: what a plugin waits for is not waited for without end.
func TestFirstBytes(t *testing.T) {
	g := start(t, Port{}, func(c *Config) { c.PrereadTimeout = 50 * time.Millisecond })
	g.put("stream_routes/1", `{"plugins":{"mqtt-proxy":{"protocol_level":4}},`+to(named(t, "a"))+`}`)
	c := g.dial()
	if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, errTimeout) {
		t.Errorf("who says nothing is waited for: %q, %v", b, err)
	}
}

func TestProxyProtocol(t *testing.T) {
	g := start(t, Port{Proxy: true, ProxyToUpstream: true}, nil)
	g.put("stream_routes/1", `{"remote_addr":"192.0.2.1",`+to(named(t, "n"))+`}`)
	server := g.tcp.Addr().(*net.TCPAddr)
	want := fmt.Sprintf("n:PROXY TCP4 192.0.2.1 127.0.0.1 4711 %d\r\nhello", server.Port)
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\x7f\x00\x00\x01\x12\x67\x00\x50"
	for name, header := range map[string]string{"1": "PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\n", "2": v2} {
		if got, err := ask(g.dial(), header+"hello"); err != nil || got != want {
			t.Errorf("version %s: %q, %v", name, got, err)
		}
	}
	if got, err := ask(g.dial(), "hello, this is no header"); got != "" {
		t.Errorf("no header: %q, %v", got, err)
	}
}

func TestShutdown(t *testing.T) {
	g := start(t, Port{}, nil)
	g.put("stream_routes/1", `{`+to(node(t, echo))+`}`)
	c := g.dial()
	fmt.Fprint(c, "x")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- g.Shutdown(ctx, g.tcp) }()
	for {
		n, err := net.Dial("tcp", g.tcp.Addr().String())
		if err != nil {
			break
		}
		n.Close()
	}
	fmt.Fprint(c, "y")
	if b, err := io.ReadAll(io.LimitReader(c, 1)); err != nil || string(b) != "y" {
		t.Errorf("a session that has begun: %q, %v", b, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := g.Sessions(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}
