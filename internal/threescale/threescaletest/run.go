package threescaletest

import (
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
)

// A Reached is an upstream that leads nowhere: what a policy has a request go to.
type Reached struct{ *model.Upstream }

// Close implements plugin.Upstream.
func (Reached) Close() {}

// Of compiles a product, without its chain, whose upstreams are Reached; nil: one
// whose API is at http://api.example.
func Of(t *testing.T, m *model.Product) *threescale.Product {
	t.Helper()
	if m == nil {
		m = &model.Product{ID: "42", SystemName: "pets", Upstream: "http://api.example", Hosts: []string{"example.com"}}
	}
	env := plugintest.Env(time.Now)
	env.Reach = func(m *model.Upstream) (plugin.Upstream, error) { return Reached{m}, nil }
	rt := Runtime(time.Now)
	p, err := threescale.NewProduct(m, rt, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		rt.Close()
	})
	return p
}

// Run drives one policy through cases as plugintest.Run does; those without a
// product have Of(nil).
func Run(t *testing.T, spec plugin.Spec, cases []plugintest.Case) {
	t.Helper()
	standard := Of(t, nil)
	for i := range cases {
		c := &cases[i]
		if c.Product == nil {
			c.Product = standard
		}
		c.Begin = c.Product.(*threescale.Product).Begin
	}
	plugintest.Run(t, spec, cases)
}

// Asks looks whether the upstream is asked for the target, with the Host header.
func Asks(host, target string) func(*testing.T, *plugin.Ctx) {
	return func(t *testing.T, c *plugin.Ctx) {
		t.Helper()
		if reply := threescale.Route(c); reply != nil {
			t.Errorf("there is no upstream: %d", reply.Status)
			return
		}
		sent := c.To.Target
		if sent == "" {
			sent = c.Request.Target
		}
		if c.To.Host != host || sent != target {
			t.Errorf("the upstream is asked for %s at %s, want %s at %s", sent, c.To.Host, target, host)
		}
	}
}

// Goes is Asks for the target alone.
func Goes(target string) func(*testing.T, *plugin.Ctx) { return Asks("api.example", target) }
