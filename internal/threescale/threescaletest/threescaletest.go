// Package threescaletest drives one policy through the same door as the gateway:
// compiled for a product, then requests to it.
package threescaletest

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
)

// Runtime is one with no settings, which logs nothing.
func Runtime(now func() time.Time) *threescale.Runtime {
	return threescale.NewRuntime(threescale.Settings{}, slog.New(slog.DiscardHandler), meter.New(0), now)
}

// Product compiles the product of a service document. rt nil stands for a Runtime
// with the real clock.
func Product(t testing.TB, rt *threescale.Runtime, service, oidc string) *threescale.Product {
	t.Helper()
	if rt == nil {
		rt = Runtime(time.Now)
		t.Cleanup(rt.Close)
	}
	doc := apicast.Product{Service: json.RawMessage(service)}
	if oidc != "" {
		doc.OIDC = json.RawMessage(oidc)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := apicast.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err := threescale.NewProduct(m, rt, plugintest.Env(rt.Now))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Env is an environment for policies of a product.
func Env(p *threescale.Product) plugin.Env {
	env := plugintest.Env(p.Runtime.Now)
	env.Product, env.Meter, env.Log = p, p.Runtime.Meter, p.Runtime.Log
	env.Owner = "products/" + p.ID
	return env
}

// Compile compiles a policy of a product.
func Compile(t testing.TB, p *threescale.Product, policy plugin.Spec, config string) plugin.Phases {
	t.Helper()
	ph, err := policy.Compile([]byte(config), Env(p))
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Own(t, policy, ph)
	if ph.Close != nil {
		t.Cleanup(ph.Close)
	}
	return ph
}

// Ctx is a GET request to a product with the given header fields.
func Ctx(p *threescale.Product, target string, fields ...[2]string) *plugin.Ctx {
	c := plugintest.NewCtx(target, fields...)
	p.Begin(c)
	return c
}

// Claims gives a request a token with these claims, a JSON object.
func Claims(t testing.TB, c *plugin.Ctx, payload string) {
	t.Helper()
	token := &threescale.Token{Payload: json.RawMessage(payload)}
	if err := json.Unmarshal([]byte(payload), &token.Claims); err != nil {
		t.Fatal(err)
	}
	threescale.Of(c).Token = token
}

// RuntimeOf is Runtime with settings.
func RuntimeOf(s threescale.Settings, now func() time.Time) *threescale.Runtime {
	return threescale.NewRuntime(s, slog.New(slog.DiscardHandler), meter.New(0), now)
}
