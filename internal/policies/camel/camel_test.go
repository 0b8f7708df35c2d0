package camel

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

// through looks which proxies the request takes to http and https upstreams.
func through(http, https string) func(*testing.T, *plugin.Ctx) {
	return func(t *testing.T, c *plugin.Ctx) {
		t.Helper()
		p := threescale.Of(c).Connect.Proxies
		if p == nil || p.Absolute != absolute {
			t.Fatalf("proxies %+v", p)
		}
		for want, got := range map[string]*threescale.Proxy{http: p.HTTP, https: p.HTTPS} {
			if got == nil && want != "" || got != nil && got.Host != want {
				t.Errorf("goes through %+v, want %q", got, want)
			}
		}
	}
}

func Test(t *testing.T) {
	one := func(look func(*testing.T, *plugin.Ctx)) []plugintest.Request {
		return []plugintest.Request{{Look: look}}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "none, not even the environment's", Config: `{}`, Requests: one(through("", ""))},
		{Name: "all", Config: `{"all_proxy":"http://a:8080"}`, Requests: one(through("a", "a"))},
		{Name: "by scheme", Config: `{"all_proxy":"http://a","http_proxy":"http://h","https_proxy":"http://s:3128/"}`, Requests: one(through("h", "s"))},
		{Name: "one of them", Config: `{"https_proxy":"http://user:pass@s"}`, Requests: one(through("", "s"))},
		{Name: "not a URL", Config: `{"http_proxy":"nowhere","https_proxy":"http://s"}`, Requests: one(through("", "s"))},
	})
}

const absolute = true
