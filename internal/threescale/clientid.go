package threescale

import (
	"strconv"

	"weir/internal/plugin"
	"weir/internal/threescale/liquid"
)

// TokenIssuer compiles the issuer whose tokens authenticate the product's callers.
// What is wrong with it is logged: tokens that cannot be verified are refused.
func (p *Product) TokenIssuer() *Issuer {
	i, err := NewIssuer(p.Runtime, p.OIDC)
	if err != nil {
		p.Runtime.Log.Warn("failed to initialize OpenID Connect", "product", p.ID, "err", err)
	}
	i.clientID = clientID(p.ClientIDClaim, p.ClientIDClaimType)
	return i
}

// clientID compiles how the id of the application is found in a token's claims.
func clientID(claim, kind string) func(*Token) string {
	if kind != Liquid {
		return func(t *Token) string { return claimText(t.Claims[claim]) }
	}
	template, err := liquid.Parse(claim)
	if err != nil {
		return func(*Token) string { return "" } // whom APIcast would not let pass, either
	}
	return func(t *Token) string {
		s, err := template.Render(func(name string) any { return t.Claims[name] })
		if err != nil {
			return ""
		}
		return s
	}
}

// claimText is a claim that names somebody: a text, a number, or the first of a
// list of them.
func claimText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		if len(v) > 0 {
			return claimText(v[0])
		}
	}
	return ""
}

// Authenticate makes the application that a token was given to the caller; what a
// token that names none may do is for the backend to say. false: the token is none
// of the issuer's, or none at all.
func (r *Request) Authenticate(c *plugin.Ctx, i *Issuer) bool {
	rt := r.Product.Runtime
	t, err := i.Verify(r.Credentials.AccessToken, rt.Now())
	if err == ErrUnknownKey { //nolint:errorlint // it is not wrapped
		rt.unknownKey(i.Name())
	}
	if err != nil {
		return false
	}
	r.Token = t
	r.Credentials = Credentials{AppID: t.clientID}
	return true
}
