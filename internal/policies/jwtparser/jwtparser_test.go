package jwtparser

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func compiled(t *testing.T, rt *threescale.Runtime, service, config string) (plugin.Phases, *threescale.Product) {
	t.Helper()
	p := threescaletest.Product(t, rt, service, "")
	env := threescaletest.Env(p)
	ph, err := Policy.Compile([]byte(config), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Keep.Release)
	return ph, p
}

func Test(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	rt := threescaletest.Runtime(time.Now)
	rt.Discover = func(_ context.Context, url string) (*model.OIDC, error) {
		if url != "https://sso.test/realm" {
			return nil, errors.New("down")
		}
		return &model.OIDC{Issuer: url, Algorithms: []string{"EdDSA"}, Keys: map[string]model.JWK{
			"k": {JSON: json.RawMessage(`{"kty":"OKP","crv":"Ed25519","x":"` + encode(public) + `"}`)},
		}}, nil
	}
	token := func(iss string) string {
		text := encode([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." +
			encode(fmt.Appendf(nil, `{"iss":%q,"sub":"a","aud":"b","exp":%d}`, iss, time.Now().Add(time.Hour).Unix()))
		return text + "." + encode(ed25519.Sign(private, []byte(text)))
	}
	good := "Bearer " + token("https://sso.test/realm")
	const (
		service = `{"proxy":{"error_status_auth_failed":402}}`
		known   = `{"issuer_endpoint":"https://sso.test/realm"}`
		asking  = `{"issuer_endpoint":"https://sso.test/realm","required":true}`
	)
	for _, tc := range []struct {
		name, service, config, authorization string
		status                               int // 0: it passes
		challenge, token                     bool
	}{
		{"good", service, known, good, 0, false, true},
		{"required", service, asking, good, 0, false, true},
		{"none", service, known, "", 0, false, false},
		{"another scheme", service, known, "Basic x", 0, false, false},
		{"none, required", service, asking, "", 402, true, false},
		{"another scheme, required", service, asking, "Basic x", 402, true, false},
		{"empty", service, known, "Bearer ", 402, false, false},
		{"no token", service, asking, "Bearer x", 402, false, false},
		{"another issuer's", service, known, "Bearer " + token("https://sso.test/other"), 402, false, false},
		{"issuer down", service, `{"issuer_endpoint":"https://down.test"}`, good, 402, false, false},
		{"no issuer", service, `{}`, good, 402, false, false},
		{"no issuer, no token", service, `{}`, "", 0, false, false},
		{"no URL", service, `{"issuer_endpoint":"realm"}`, good, 402, false, false},
	} {
		ph, p := compiled(t, rt, tc.service, tc.config)
		c := threescaletest.Ctx(p, "/")
		if tc.authorization != "" {
			c.Request.Header.Add("Authorization", tc.authorization)
		}
		status, challenge := 0, false
		if r := ph.Rewrite(c); r != nil {
			status, challenge = r.Status, len(r.Header) == 1 && r.Header[0] == [2]string{"WWW-Authenticate", "Bearer"}
			if len(r.Body) != 0 || r.Body == nil {
				t.Errorf("%s: body %q", tc.name, r.Body)
			}
		}
		if got := threescale.Of(c).Token; status != tc.status || challenge != tc.challenge || (got != nil) != tc.token {
			t.Errorf("%s: %d, challenge %v, token %v", tc.name, status, challenge, got)
		}
	}
	for _, service := range []string{`{"backend_version":"oauth"}`, `{"proxy":{"authentication_method":"oidc"}}`} {
		if ph, _ := compiled(t, rt, service, asking); ph.Rewrite != nil {
			t.Errorf("%s: the product authenticates itself", service)
		}
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}
