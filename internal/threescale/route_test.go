package threescale

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

// A reached is an upstream of the tests.
type reached struct {
	*model.Upstream
	open *int
}

func (r *reached) Close() { *r.open-- }

// routing makes a product whose upstreams are counted.
func routing(t *testing.T, m *model.Product, s Settings) (*Product, *int) {
	t.Helper()
	env := plugintest.Env(time.Now)
	open := new(int)
	env.Reach = func(m *model.Upstream) (plugin.Upstream, error) {
		if m.CAs == "broken" {
			return nil, errors.New("broken")
		}
		*open++
		return &reached{m, open}, nil
	}
	p, err := NewProduct(m, NewRuntime(s, slog.New(slog.DiscardHandler), meter.New(0), time.Now), env)
	if err != nil {
		t.Fatal(err)
	}
	return p, open
}

func upstreamOf(t *testing.T, url string) *Upstream {
	t.Helper()
	u, err := NewUpstream(url)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// sent is a request to p as the engine presents it.
func sent(p *Product, target string, fields ...[2]string) *plugin.Ctx {
	c := plugintest.NewCtx(target, fields...)
	path, change, _ := wire.NormalizePath(nil, target, wire.PathOptions{})
	if c.Path = path; change&wire.ChangedSegments != 0 {
		_, query, has := strings.Cut(target, "?")
		c.To.Target = string(wire.EscapePath(nil, path))
		if has {
			c.To.Target += "?" + query
		}
	}
	p.Begin(c)
	return c
}

func TestRouteTarget(t *testing.T) {
	for _, tc := range []struct {
		api, sent string
		change    func(*Request)
		want      string // empty: what was sent
	}{
		{api: "http://up.test", sent: "/a%2Fb?x=1"},
		{api: "http://up.test/", sent: "/"},
		{api: "http://up.test", sent: "/a/../b%20c?x=%31", want: "/b%20c?x=%31"},
		{api: "http://up.test/base", sent: "/a%20b?x=1", want: "/base/a%20b?x=1"},
		{api: "http://up.test/base/", sent: "/a", want: "/base/a"},
		{api: "http://up.test/base/", sent: "/", want: "/base/"},
		{api: "http://up.test/base", sent: "/?a=1", want: "/base?a=1"},
		{api: "http://up.test/base?key=2", sent: "/a?key=1", want: "/base/a?key=2"},
		{api: "http://up.test?key=2", sent: "/a?key=1", want: "/a?key=2"},
		{api: "http://up.test", sent: "/a", change: func(r *Request) { r.SetPath("/b c") }, want: "/b%20c"},
		{api: "http://up.test/base", sent: "/a?x=1", change: func(r *Request) { r.SetPath("/"); r.SetQuery("y=2") }, want: "/base?y=2"},
		{api: "http://up.test", sent: "/a?x=1", change: func(r *Request) { r.SetQuery("") }, want: "/a"},
	} {
		p, _ := routing(t, &model.Product{ID: "1", Upstream: tc.api}, Settings{})
		c := sent(p, tc.sent)
		if tc.change != nil {
			tc.change(Of(c))
		}
		if reply := Route(c); reply != nil {
			t.Fatalf("%s %s: answered %d", tc.api, tc.sent, reply.Status)
		}
		if c.To.Target != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.api, tc.sent, c.To.Target, tc.want)
		}
		End(c)
		p.Close()
	}
}

func TestRouteHost(t *testing.T) {
	other := upstreamOf(t, "https://other.test:8443")
	for _, tc := range []struct {
		api, rewrite string
		change       func(*Request)
		want         string
	}{
		{api: "http://up.test", want: "up.test"},
		{api: "http://up.test:80", want: "up.test"},
		{api: "http://up.test:8080", want: "up.test:8080"},
		{api: "https://[::1]:8443", want: "[::1]:8443"},
		{api: "http://up.test:8080", rewrite: "public.test", want: "public.test"},
		{api: "http://up.test", change: func(r *Request) { r.Upstream = other }, want: "other.test:8443"},
		{api: "http://up.test", rewrite: "public.test", change: func(r *Request) { r.Host = "chosen.test" }, want: "chosen.test"},
	} {
		p, _ := routing(t, &model.Product{ID: "1", Upstream: tc.api, HostnameRewrite: tc.rewrite}, Settings{})
		c := sent(p, "/")
		if tc.change != nil {
			tc.change(Of(c))
		}
		Route(c)
		if c.To.Host != tc.want {
			t.Errorf("%s: %q, want %q", tc.api, c.To.Host, tc.want)
		}
		End(c)
		p.Close()
	}
}

func TestRouteNowhere(t *testing.T) {
	p, _ := routing(t, &model.Product{ID: "1"}, Settings{})
	c := sent(p, "/")
	if reply := Route(c); reply == nil || reply.Status != 404 || reply.Body == nil || len(reply.Body) != 0 {
		t.Errorf("%+v", reply)
	}
	End(c)
	c = sent(p, "/")
	Of(c).Upstream = upstreamOf(t, "https://up.test")
	Of(c).Connect.TLS = &ClientTLS{CAs: "broken"}
	if reply := Route(c); reply == nil || reply.Status != 503 {
		t.Errorf("%+v", reply)
	}
	End(c)
	p.Close()
}

// A way that policies choose is made once, and closed with the product.
func TestRouteWays(t *testing.T) {
	p, open := routing(t, &model.Product{ID: "1", Upstream: "http://up.test"}, Settings{})
	mine := &ClientTLS{Certificate: "C", Key: "K", CAs: "CA", Verify: true}
	for _, tc := range []struct {
		url     string
		connect Connect
		made    int
		scheme  string
		tls     string
	}{
		{"", Connect{}, 1, "http", `{"verify":false}`},
		{"https://a.test/x", Connect{}, 2, "https", `{"verify":false}`},
		{"https://a.test/y?q", Connect{}, 2, "https", `{"verify":false}`},
		{"https://a.test:444", Connect{}, 3, "https", `{"verify":false}`},
		{"https://a.test", Connect{HTTP2: true}, 4, "grpcs", `{"verify":false}`},
		{"https://a.test", Connect{TLS: mine}, 5, "https", `{"client_cert":"C","client_key":"K","verify":true}`},
		{"https://a.test", Connect{TLS: mine}, 5, "https", `{"client_cert":"C","client_key":"K","verify":true}`},
	} {
		c := sent(p, "/")
		r := Of(c)
		if r.Connect = tc.connect; tc.url != "" {
			r.Upstream = upstreamOf(t, tc.url)
		}
		if reply := Route(c); reply != nil {
			t.Fatal(reply.Status)
		}
		got := c.To.Upstream.(*reached)
		if got.Scheme != tc.scheme || string(got.TLS) != tc.tls || *got.Retries != 0 || *open != tc.made {
			t.Errorf("%s: %+v %s, %d made", tc.url, got.Upstream, got.TLS, *open)
		}
		if tc.connect.TLS != nil && got.CAs != "CA" {
			t.Errorf("CAs %q", got.CAs)
		}
		End(c)
	}
	if p.Close(); *open != 0 {
		t.Errorf("%d upstreams are still open", *open)
	}
}

func TestRouteEnvironmentTLS(t *testing.T) {
	p, _ := routing(t, &model.Product{ID: "1", Upstream: "wss://up.test"}, Settings{VerifyTLS: true, Certificate: "C", CertificateKey: "K"})
	defer p.Close()
	got := p.own.upstream.(*reached)
	var doc map[string]any
	if err := json.Unmarshal(got.TLS, &doc); err != nil || doc["verify"] != true || doc["client_cert"] != "C" || doc["client_key"] != "K" {
		t.Errorf("%s %v", got.TLS, err)
	}
	if got.Scheme != "https" || got.Nodes[0] != (model.Node{Host: "up.test", Port: 443, Weight: 1}) {
		t.Errorf("%+v", got.Upstream)
	}
}

func TestRouteThroughProxies(t *testing.T) {
	all := Settings{HTTPProxy: "http://x:y@h.test:3128", AllProxy: "http://a.test", NoProxy: "direct.test,.sub.test, 10.0.0.1"}
	proxies := func(http, https, all string, absolute bool) *Proxies {
		p, err := NewProxies(http, https, all)
		if err != nil {
			t.Fatal(err)
		}
		p.Absolute = absolute
		return p
	}
	for _, tc := range []struct {
		name, url string
		proxies   *Proxies
		fields    [][2]string
		want      string // node, tunnel, target
		asks      string // Proxy-Authorization of the request
	}{
		{name: "http", url: "http://up.test", want: "h.test:3128 - http://up.test/p?q=1", asks: "Basic eDp5"},
		{name: "a path", url: "http://up.test:81/b", want: "h.test:3128 - http://up.test:81/b/p?q=1", asks: "Basic eDp5"},
		{name: "the client's own", url: "http://up.test", fields: [][2]string{{"Proxy-Authorization", "Basic mine"}}, want: "h.test:3128 - http://up.test/p?q=1", asks: "Basic mine"},
		{name: "https", url: "https://up.test", want: "a.test:80 up.test:443 "},
		{name: "websocket", url: "ws://up.test", want: "up.test:80 - "},
		{name: "no proxy", url: "http://direct.test", want: "direct.test:80 - "},
		{name: "of a domain", url: "http://a.b.sub.test", want: "a.b.sub.test:80 - "},
		{name: "an address", url: "http://10.0.0.1", want: "10.0.0.1:80 - "},
		{name: "another domain", url: "http://notdirect.test", want: "h.test:3128 - http://notdirect.test/p?q=1", asks: "Basic eDp5"},
		{name: "a policy's", url: "http://up.test", proxies: proxies("", "", "http://p.test:1", false), want: "p.test:1 - http://up.test/p?q=1"},
		{name: "a policy's, whatever no_proxy says", url: "http://direct.test", proxies: proxies("http://p.test:1", "", "", false), want: "p.test:1 - http://direct.test/p?q=1"},
		{name: "a policy's, not for https", url: "https://up.test", proxies: proxies("http://p.test:1", "", "", false), want: "up.test:443 - "},
		{name: "camel", url: "https://up.test", proxies: proxies("", "http://u:p@c.test:1", "", true), want: "c.test:1 - https://up.test/p?q=1"},
		{name: "camel over http", url: "http://up.test", proxies: proxies("http://u:p@c.test:1", "", "", true), want: "c.test:1 - http://up.test/p?q=1"},
	} {
		p, _ := routing(t, &model.Product{ID: "1", Upstream: tc.url}, all)
		c := sent(p, "/p?q=1", tc.fields...)
		Of(c).Connect.Proxies = tc.proxies
		if reply := Route(c); reply != nil {
			t.Fatalf("%s: %d", tc.name, reply.Status)
		}
		m := c.To.Upstream.(*reached)
		tunnel := "-"
		if m.Tunnel != nil {
			tunnel = m.Tunnel.To
		}
		if got := fmt.Sprintf("%s %s %s", address(m.Nodes[0].Host, m.Nodes[0].Port), tunnel, c.To.Target); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if tc.fields == nil {
			if asks, _ := c.Header("Proxy-Authorization"); asks != tc.asks {
				t.Errorf("%s: the proxy is shown %q, want %q", tc.name, asks, tc.asks)
			}
		}
		End(c)
		p.Close()
	}
}

func TestProxyURLs(t *testing.T) {
	for _, raw := range []string{"https://p.test", "p.test:3128", "http://", "http://p.test:0", "http://p.test:99999", "http://u:secret@p.test:x"} {
		p, err := NewProxy(raw)
		if err == nil || p != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %+v %v", raw, p, err)
		}
	}
	p, err := NewProxies("http://[::1]:3128", "bad", "http://all.test")
	if err == nil || p.HTTP.Host != "::1" || p.HTTPS.Host != "all.test" || p.HTTPS.Port != 80 {
		t.Errorf("%+v %v", p, err)
	}
	if !(&Settings{NoProxy: "*"}).direct("x.test") || (&Settings{NoProxy: "test"}).direct("x.test") || (&Settings{}).direct("x") {
		t.Error("no_proxy")
	}
}

func TestRouteMarks(t *testing.T) {
	p, _ := routing(t, &model.Product{ID: "1", Upstream: "http://up.test", SecretToken: "s3"}, Settings{})
	defer p.Close()
	for name, connect := range map[string]Connect{secretHeader: {}, grpcSecretHeader: {HTTP2: true}} {
		c := sent(p, "/", [2]string{"x-3scale-debug", "v"}, [2]string{"X_3scale-proxy-secret-token", "forged"})
		Of(c).Connect = connect
		Route(c)
		for _, f := range c.Request.Header.Fields() {
			if f.Dropped {
				continue
			}
			if f.Name != name || f.Value != "s3" {
				t.Errorf("the upstream is shown %s: %s", f.Name, f.Value)
			}
		}
		End(c)
	}
}

func TestRouteAllocates(t *testing.T) {
	p, _ := routing(t, &model.Product{ID: "1", Upstream: "http://up.test/base", SecretToken: "s"}, Settings{})
	defer p.Close()
	other := upstreamOf(t, "https://other.test")
	c := sent(p, "/a?b=c", [2]string{"Accept", "*/*"})
	r := Of(c)
	n := testing.AllocsPerRun(100, func() {
		for _, u := range []*Upstream{nil, other} {
			r.Upstream = u
			c.To = plugin.Destination{}
			Route(c)
		}
		c.Request.Header.Reset()
		c.Reset()
		c.Product = r
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	End(c)
}

// Requests that choose the same way at the same time share it.
func TestRouteWaysAtOnce(t *testing.T) {
	p, open := routing(t, &model.Product{ID: "1", Upstream: "http://up.test"}, Settings{})
	var mu sync.Mutex
	reach := p.env.Reach
	p.env.Reach = func(m *model.Upstream) (plugin.Upstream, error) {
		mu.Lock()
		defer mu.Unlock()
		return reach(m)
	}
	urls := make([]*Upstream, 5)
	for i := range urls {
		urls[i] = upstreamOf(t, fmt.Sprintf("https://%d.test", i))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				c := sent(p, "/")
				Of(c).Upstream = urls[i%len(urls)]
				if reply := Route(c); reply != nil {
					t.Error(reply.Status)
				}
				if m := c.To.Upstream.(*reached); m.Nodes[0].Host != urls[i%len(urls)].Host {
					t.Errorf("%s leads to %s", urls[i%len(urls)].Host, m.Nodes[0].Host)
				}
				End(c)
			}
		})
	}
	wg.Wait()
	if *open != 1+len(urls) {
		t.Errorf("%d upstreams were made", *open)
	}
	if p.Close(); *open != 0 {
		t.Errorf("%d are still open", *open)
	}
}
