// Package jwtparser verifies the token of a request to a product that does not
// authenticate by OpenID Connect itself, and makes its claims known.
package jwtparser

import (
	"errors"
	"net/url"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is jwt_parser.
var Policy = plugin.Define(
	plugin.Meta{Name: "jwt_parser", Guard: true, Doc: "Verifies the JSON Web Token of a request by the keys of an OpenID Connect issuer."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Issuer   string `json:"issuer_endpoint" doc:"URL of the issuer, which is asked for its configuration and keys (OpenID Connect Discovery)."`
	Required bool   `json:"required" doc:"Refuse requests without a token."`
}

// patience is how long a request waits for an issuer of which nothing is known
// yet.
const patience = 3 * time.Second

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	p := threescale.ProductOf(env)
	if p.Authentication == "oidc" || p.Authentication == "oauth" {
		env.Log.Warn("jwt_parser is incompatible with OIDC authentication mode", "owner", env.Owner)
		return plugin.Phases{}, nil
	}
	verify := verifier(c.Issuer, env)
	invalid := &plugin.Reply{Status: p.Failed.Status, Body: []byte{}}
	var missing *plugin.Reply
	if c.Required {
		missing = &plugin.Reply{Status: p.Failed.Status, Header: [][2]string{{"WWW-Authenticate", "Bearer"}}, Body: []byte{}}
	}
	said := new(threescale.Seldom)
	return plugin.Phases{Rewrite: func(r *plugin.Ctx) *plugin.Reply {
		raw, ok := threescale.Bearer(r)
		if !ok {
			return missing
		}
		token, err := verify(raw, env.Now())
		if err != nil {
			if said.Ready(env.Now()) {
				env.Log.Warn("failed to parse access token", "owner", env.Owner, "err", err)
			}
			return invalid
		}
		threescale.Of(r).Token = token
		return nil
	}}, nil
}

var errNoIssuer = errors.New("missing OIDC configuration")

// verifier verifies the tokens of an issuer; those of none are never valid.
func verifier(issuer string, env plugin.Env) func(raw string, now time.Time) (*threescale.Token, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		if issuer != "" { // which may hold a password
			env.Log.Error("issuer_endpoint is not the http or https URL of an issuer: every token is refused", "policy", "jwt_parser", "owner", env.Owner)
		}
		return func(string, time.Time) (*threescale.Token, error) { return nil, errNoIssuer }
	}
	d := threescale.DiscoverIssuer(env, issuer)
	return func(raw string, now time.Time) (*threescale.Token, error) { return d.Verify(raw, now, patience) }
}
