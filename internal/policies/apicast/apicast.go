// Package apicast authenticates the callers of a product, has 3scale's backend
// authorize and count what they ask for, and sends the rest upstream.
package apicast

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is apicast.
var Policy = plugin.Define(
	plugin.Meta{Name: "apicast", Guard: true, Doc: "Authenticate and authorize callers with 3scale, count what they use, and call the API."},
	compile,
)

// Config is the policy's configuration.
type Config struct{}

// notFound answers what APIcast no longer does: OAuth 2.0 without OpenID Connect.
var notFound = &plugin.Reply{Status: 404, Body: []byte{}}

func compile(_ *Config, env plugin.Env) (plugin.Phases, error) {
	p := threescale.ProductOf(env)
	client, err := threescale.NewClient(env)
	if err != nil {
		return plugin.Phases{}, err
	}
	rewrite := func(c *plugin.Ctx) *plugin.Reply { return identify(c, nil) }
	switch p.Authentication {
	case "oidc":
		issuer := p.TokenIssuer()
		rewrite = func(c *plugin.Ctx) *plugin.Reply { return identify(c, issuer) }
	case "oauth":
		env.Log.Warn("authentication_method oauth is not served: requests are answered 404", "product", p.ID)
		rewrite = func(*plugin.Ctx) *plugin.Reply { return notFound }
	}
	return plugin.Phases{
		Rewrite: rewrite,
		Access:  func(c *plugin.Ctx) *plugin.Reply { return authorize(c, client) },
		Content: threescale.Route,
		Log: func(c *plugin.Ctx) {
			if r := threescale.Of(c); r.Reported() {
				client.Report(c, r)
			}
		},
	}, nil
}

// identify finds out who asks, and what that counts. issuer is of tokens that
// prove the former; nil: the credentials do.
func identify(c *plugin.Ctx, issuer *threescale.Issuer) *plugin.Reply {
	r := threescale.Of(c)
	p := r.Product
	if r.Credentials.None() { // else a policy has given some
		r.Credentials = r.FindCredentials(c)
	}
	if !p.Complete(&r.Credentials) {
		return p.Missing
	}
	r.Count(c)
	if issuer != nil && !r.Authenticate(c, issuer) {
		return p.Failed
	}
	return nil
}

func authorize(c *plugin.Ctx, client *threescale.Client) *plugin.Reply {
	r := threescale.Of(c)
	if r.Delegated {
		return nil
	}
	if len(r.Usage) == 0 {
		return r.Product.NoMatch
	}
	r.Debug(c)
	return client.Allow(c, r)
}
