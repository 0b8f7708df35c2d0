//go:build !race

package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/plugins/keyauth"
	"weir/internal/plugins/limitcount"
	"weir/internal/plugins/prometheus"
	"weir/internal/plugins/proxyrewrite"
	"weir/internal/router"
	"weir/internal/weirtest"
	"weir/internal/wire"
)

// inUse are the plugins that the tests of this file configure.
var inUse = []plugin.Spec{keyauth.Plugin, limitcount.Plugin, prometheus.Plugin, proxyrewrite.Plugin}

const (
	keyAuth      = `"key-auth":{}`
	limitCount   = `"limit-count":{"count":1000000000,"time_window":3600,"key":"consumer_name"}`
	countStatus  = `"prometheus":{}`
	proxyRewrite = `"proxy-rewrite":{"uri":"/rewritten","headers":{"set":{"X-Gateway":"weir"}}}`
)

// disabled are features that look at requests, all of them there and off: logs,
// metrics, traces, mirrors, what tells of debugging.
var disabled = func() string {
	const off = `"_meta":{"disable":true}`
	return strings.Join([]string{
		`"prometheus":{` + off + `}`,
		`"opentelemetry":{"sampler":{"name":"always_on"},` + off + `}`,
		`"http-logger":{"uri":"http://127.0.0.1:1/","include_req_body":true,` + off + `}`,
		`"file-logger":{"path":"/nowhere/log","include_resp_body":true,` + off + `}`,
		`"syslog":{"host":"127.0.0.1","port":1,` + off + `}`,
		`"tcp-logger":{"host":"127.0.0.1","port":1,` + off + `}`,
		`"udp-logger":{"host":"127.0.0.1","port":1,` + off + `}`,
		`"proxy-mirror":{"host":"http://127.0.0.1:1",` + off + `}`,
		`"request-id":{` + off + `}`,
	}, ",")
}()

// A setting is a route with plugins, a consumer with some of its own, and
// perhaps a global rule.
type setting struct{ route, consumer, global string }

// chain is what an ordinary API is given.
var chain = setting{route: keyAuth + "," + limitCount + "," + countStatus + "," + proxyRewrite}

// run starts a gateway with a setting. once sends a request and reads the answer,
// without allocating itself.
func (s setting) run(t testing.TB, all []plugin.Spec) (g *gateway, once func()) {
	up := fixed(t, smallAnswer)
	g = startPlugins(t, router.HostURI, byDefault, all)
	own := fmt.Sprintf(`"key-auth":{"key":%q}`, corpusKey)
	if s.consumer != "" {
		own += "," + s.consumer
	}
	objects := []string{
		"routes/1", fmt.Sprintf(`{"uri":"/small","host":"api1.example.com","plugins":{%s},"upstream":{"nodes":{%q:1}}}`, s.route, up.addr),
		"consumers/jack", `{"username":"jack","plugins":{` + own + `}}`,
	}
	if s.global != "" {
		objects = append(objects, "global_rules/1", `{"plugins":{`+s.global+`}}`)
	}
	g.put(objects...)
	return g, g.asking(keyAuthRequest)
}

// asking returns a function that sends a request on a connection and reads the
// answer, which must be 200.
func (g *gateway) asking(request string) func() {
	c := g.dial()
	out, in := []byte(request), make([]byte, 4096)
	return func() {
		if _, err := c.Write(out); err != nil {
			g.t.Fatal(err)
		}
		n, err := c.Read(in)
		if err != nil || string(in[:12]) != "HTTP/1.1 200" {
			g.t.Fatalf("%q %v", in[:n], err)
		}
	}
}

// watch traces everything that may run for keyAuthRequest.
func (g *gateway) watch() *weirtest.Trace {
	pin := g.state.NewPin()
	defer g.state.FreePin(pin)
	snap := pin.Take()
	defer pin.Drop()
	trace := new(weirtest.Trace)
	global, _ := snap.Global()
	route := snap.Match(&plugin.Ctx{
		Request: &wire.Request{Method: "GET", Host: "api1.example.com"}, Path: "/small",
	})
	own, _ := snap.Find("key-auth", corpusKey).Plan.(*plan.Plan)
	trace.Watch(global, route.Plan, own)
	return trace
}

type settingCase struct {
	name string
	setting
	allocations float64
	functions   []string
	all         bool // it needs plugins that are not in use
}

var settings = []settingCase{
	{name: "no plugin"},
	{name: "every observer disabled", setting: setting{route: disabled, global: disabled}, all: true},
	{
		name: "key-auth", setting: setting{route: keyAuth},
		functions: []string{"key-auth rewrite routes/1"},
	},
	{
		name: "prometheus as a global rule", setting: setting{global: countStatus},
		functions: []string{"prometheus log global_rules/1"},
	},
	{
		name: "prometheus as a global rule and on the route", setting: setting{route: countStatus, global: countStatus},
		functions: []string{"prometheus log routes/1"},
	},
	{
		name: "chain", setting: chain,
		functions: []string{
			"key-auth rewrite routes/1", "proxy-rewrite rewrite routes/1", "limit-count access routes/1", "prometheus log routes/1",
		},
	},
	{
		name: "a limit of the consumer", setting: setting{route: keyAuth, consumer: limitCount},
		functions: []string{"key-auth rewrite routes/1", "limit-count access consumers/jack"},
	},
}

// builds are those in which a setting is tried.
func (s *settingCase) builds() map[string][]plugin.Spec {
	builds := map[string][]plugin.Spec{"all plugins": plugins.All()}
	if !s.all {
		builds["plugins in use"] = inUse
	}
	return builds
}

// TestFunctions: what is configured runs, in order, once; whether other plugins
// exist makes no difference.
func TestFunctions(t *testing.T) {
	for _, tc := range settings {
		for with, specs := range tc.builds() {
			t.Run(tc.name+"/"+with, func(t *testing.T) {
				g, once := tc.run(t, specs)
				trace := g.watch()
				want := slices.Concat(tc.functions, tc.functions)
				once()
				once() // what the first log phase does is over when this is answered
				var ran []string
				await(t, "the last function", func() bool {
					ran = append(ran, trace.Take()...)
					return len(ran) >= len(want)
				})
				if !slices.Equal(ran, want) {
					t.Errorf("two requests ran\n%q, want\n%q", ran, want)
				}
			})
		}
	}
}

// TestAllocationsOfPlugins: exactly these per request, of gateway, client and
// origin together, whether other plugins exist or not.
func TestAllocationsOfPlugins(t *testing.T) {
	for _, tc := range settings {
		for with, specs := range tc.builds() {
			t.Run(tc.name+"/"+with, func(t *testing.T) {
				_, once := tc.run(t, specs)
				for range 100 {
					once()
				}
				if n := testing.AllocsPerRun(500, once); n != tc.allocations {
					t.Errorf("%v allocations per request, want %v", n, tc.allocations)
				}
			})
		}
	}
}

// TestSystemCalls: a request through the chain is four writes, one each of
// client, gateway to the upstream, upstream, and gateway to the client: no plugin
// adds one. Each of the four messages is read with one call, after at most one
// that found nothing yet; reading the counters costs a few more.
func TestSystemCalls(t *testing.T) {
	if _, err := os.Stat("/proc/self/io"); err != nil {
		t.Skip("no /proc/self/io")
	}
	for _, tc := range settings {
		t.Run(tc.name, func(t *testing.T) {
			_, once := tc.run(t, plugins.All())
			for range 100 {
				once()
			}
			reads, writes, err := weirtest.FewestIO(20, 100, once)
			if err != nil {
				t.Fatal(err)
			}
			if writes != 4 || reads > 8.1 {
				t.Errorf("%v writes and %v reads per request, want 4 and at most 8", writes, reads)
			}
			t.Logf("%v writes, %v reads", writes, reads)
		})
	}
}
