// Package tokenintrospection admits only requests whose token is active, as the
// authorization server says (RFC 7662).
package tokenintrospection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is token_introspection.
var Policy = plugin.Define(
	plugin.Meta{Name: "token_introspection", Guard: true, Doc: "Admits only tokens that are active, which the authorization server is asked (RFC 7662)."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	AuthType string `json:"auth_type" schema:"default=client_id+client_secret,enum=use_3scale_oidc_issuer_endpoint|client_id+client_secret|client_secret_jwt|private_key_jwt" doc:"How the gateway proves itself to the server."`

	URL      string `json:"introspection_url" doc:"Where the server is asked."`
	ClientID string `json:"client_id" doc:"Who the gateway is to the server."`
	Secret   string `json:"client_secret" schema:"secret" doc:"Its secret."`

	Audience  string           `json:"client_jwt_assertion_audience" doc:"Audience of the tokens that the gateway signs for the server."`
	ExpiresIn threescale.Whole `json:"client_jwt_assertion_expires_in" doc:"Seconds that they are valid; default: 60."`

	CertificateType string `json:"certificate_type" schema:"default=path,enum=path|embedded" doc:"What certificate is: a path or a data URL."`
	Certificate     string `json:"certificate" schema:"secret" doc:"RSA private key that signs them, in PEM."`

	MaxTTL    threescale.Whole `json:"max_ttl_tokens" doc:"Seconds that an answer is relied on at most; default: as long as the token is valid."`
	MaxCached threescale.Whole `json:"max_cached_tokens" doc:"Answers that are relied on again; 0, the default: none."`
}

// mostCached is how many answers one configuration keeps at most.
const mostCached = 10_000

// An introspector asks about tokens.
type introspector struct {
	rt    *threescale.Runtime
	url   string
	prove func(c *plugin.Ctx, form *form, header http.Header) error
	ttl   time.Duration // of answers at most; 0: no bound
	known *answers      // nil: nothing is kept
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	p := threescale.ProductOf(env)
	refusal := plugin.Text(p.Failed.Status, p.Product.Failed.Message+"\n")
	i, err := newIntrospector(c, p)
	if err != nil {
		return plugin.Phases{}, err
	}
	if i == nil {
		env.Log.Warn("token introspection cannot be performed as introspection endpoint is not available: every request is refused", "owner", env.Owner)
		return plugin.Phases{Access: func(*plugin.Ctx) *plugin.Reply { return refusal }}, nil
	}
	said := new(threescale.Seldom)
	return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply {
		token, ok := threescale.Bearer(r)
		if !ok || token == "" {
			return refusal
		}
		active, err := i.active(env.Context, r, token)
		if err != nil && said.Ready(env.Now()) {
			env.Log.Warn("token introspection failed", "owner", env.Owner, "url", plugin.BareURL(i.url), "err", plugin.Bare(err))
		}
		if !active {
			return refusal
		}
		return nil
	}}, nil
}

// newIntrospector reads a configuration; nil: there is nobody to ask.
func newIntrospector(c *Config, p *threescale.Product) (*introspector, error) {
	i := &introspector{rt: p.Runtime, url: c.URL, ttl: schema.Seconds(max(c.MaxTTL, 0))}
	if n := min(int(c.MaxCached), mostCached); n > 0 {
		i.known = newAnswers(n)
	}
	switch c.AuthType {
	case "use_3scale_oidc_issuer_endpoint":
		if p.Authentication != "oidc" || p.OIDC == nil {
			return nil, nil
		}
		i.url = p.OIDC.Introspection
		i.prove = basic(userInfo(p.OIDCIssuer))
	case "client_secret_jwt":
		i.prove = asserted(c, p.Runtime, "HS256", signHMAC(c.Secret))
	case "private_key_jwt":
		signer, err := newSigner(c)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		i.prove = asserted(c, p.Runtime, "RS256", signer.Sign)
	default:
		i.prove = basic(c.ClientID, c.Secret)
	}
	if i.url == "" {
		return nil, nil
	}
	if !strings.HasPrefix(i.url, "http://") && !strings.HasPrefix(i.url, "https://") {
		return nil, errors.New("introspection_url is no http or https URL")
	}
	return i, nil
}

// userInfo is what stands before the host in a URL, as it is written there.
func userInfo(raw string) (id, secret string) {
	_, rest, _ := strings.Cut(raw, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return "", ""
	}
	id, secret, _ = strings.Cut(rest[:at], ":")
	return id, secret
}

func newSigner(c *Config) (*threescale.Signer, error) {
	read := threescale.ReadFile
	if c.CertificateType == "embedded" {
		read = threescale.DataURL
	}
	text, err := read(c.Certificate)
	if err != nil {
		return nil, err
	}
	return threescale.NewSigner(text)
}

var errLost = errors.New("who asked was lost")

// active says whether a token is, which the error can give the reason for. Those
// who ask about the same token at the same time share an answer.
func (i *introspector) active(ctx context.Context, c *plugin.Ctx, token string) (bool, error) {
	if i.known == nil {
		a, err := i.ask(ctx, c, token)
		return a.active, err
	}
	return i.known.get(token, i.rt.Now, func() (answer, error) { return i.ask(ctx, c, token) })
}

// An answer is what the server said of a token.
type answer struct {
	active bool
	until  time.Time // when it is not to be relied on any more; zero: it was at once
}

// ask asks the server (RFC 7662 §2).
func (i *introspector) ask(ctx context.Context, c *plugin.Ctx, token string) (answer, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	var f form
	f.add("token", token)
	f.add("token_type_hint", "access_token")
	if err := i.prove(c, &f, header); err != nil {
		return answer{}, err
	}
	body, err := i.rt.Post(ctx, i.url, header, []byte(f.String()))
	if err != nil {
		return answer{}, err
	}
	said, ok := plugin.ParseObject(body)
	if !ok {
		return answer{}, errors.New("failed to parse token introspection response")
	}
	a := answer{active: string(said.Member("active")) == "true"}
	now := i.rt.Now()
	if seconds, err := strconv.ParseFloat(strings.Trim(string(said.Member("exp")), `"`), 64); err == nil && seconds > 0 {
		a.until = time.Unix(int64(min(seconds, 1<<40)), 0)
	}
	if most := now.Add(i.ttl); i.ttl > 0 && (a.until.IsZero() || most.Before(a.until)) {
		a.until = most
	}
	return a, nil
}
