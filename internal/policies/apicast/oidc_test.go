package apicast

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/policies/caching"
	"weir/internal/threescale"
)

// A signer signs tokens as one issuer.
type signer struct {
	t   testing.TB
	key *ecdsa.PrivateKey
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{t, key}
}

// oidc is the issuer's part of a document.
func (s *signer) oidc(kid string) string {
	der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		s.t.Fatal(err)
	}
	public, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf(`{"issuer":"https://sso.test/a","config":{"id_token_signing_alg_values_supported":["ES256"]},
		"keys":{%q:{"pem":%s,"alg":"ES256"}}}`, kid, public)
}

// token signs the claims of a valid token, with changes.
func (s *signer) token(kid string, changes string) string {
	claims := map[string]any{
		"iss": "https://sso.test/a", "aud": "x", "sub": "somebody", "azp": "app", "exp": time.Now().Add(time.Hour).Unix(), "jti": time.Now().UnixNano(),
	}
	if err := json.Unmarshal([]byte(changes), &claims); err != nil {
		s.t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode(fmt.Appendf(nil, `{"alg":"ES256","kid":%q}`, kid)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return text + "." + encode(signature[:])
}

func bearer(token string) [2]string { return [2]string{"Authorization", "Bearer " + token} }

const openID = `"backend_version":"oauth",`

func oidcProxy(rest string) string { return hits + `,"authentication_method":"oidc"` + rest }

func TestTokens(t *testing.T) {
	s := newSigner(t)
	const refused = "refused"
	for _, tc := range []struct {
		name, proxy, claims string
		want                string // the application; refused: no such request reaches the backend
	}{
		{"a token", "", `{}`, "app"},
		{"another claim", `,"jwt_claim_with_client_id":"client","jwt_claim_with_client_id_type":"plain"`, `{"client":"other"}`, "other"},
		{"a template", `,"jwt_claim_with_client_id":"{{ client | upcase }}-{{ azp }}","jwt_claim_with_client_id_type":"liquid"`, `{"client":"other"}`, "OTHER-app"},
		{"a list", "", `{"azp":["first","second"]}`, "first"},
		{"a number", "", `{"azp":17}`, "17"},
		{"nobody", "", `{"azp":null}`, ""},
		{"an empty list", "", `{"azp":[]}`, ""},
		{"a broken template", `,"jwt_claim_with_client_id":"{{ client","jwt_claim_with_client_id_type":"liquid"`, `{}`, ""},
		{"ended", "", `{"exp":1}`, refused},
		{"of another issuer", "", `{"iss":"https://sso.test/b"}`, refused},
	} {
		c := newChain(t, threescale.Settings{}, openID, oidcProxy(tc.proxy), s.oidc("k"))
		k := c.get("/", bearer(s.token("k", tc.claims)))
		calls := c.backend.Calls()
		if tc.want == refused {
			if k.status() != 403 || string(k.reply.Body) != "Authentication failed" || len(calls) != 0 {
				t.Errorf("%s: %d, %d calls", tc.name, k.status(), len(calls))
			}
			continue
		}
		if k.status() != 200 || len(calls) != 1 {
			t.Errorf("%s: %d, %d calls", tc.name, k.status(), len(calls))
			continue
		}
		if q := calls[0].Query; calls[0].Path != "/transactions/oauth_authrep.xml" || q.Get("app_id") != tc.want || q.Has("access_token") {
			t.Errorf("%s: %s %v", tc.name, calls[0].Path, q)
		}
	}
}

func TestTokenPlaces(t *testing.T) {
	s := newSigner(t)
	for _, tc := range []struct {
		location, target string
		field            func(string) [2]string
		want             int
	}{
		{"query", "/?access_token=%s", nil, 200},
		{"query", "/", bearer, 200},
		{"headers", "/", func(token string) [2]string { return [2]string{"Access-Token", token} }, 200},
		{"headers", "/", bearer, 200},
		{"authorization", "/", bearer, 200},
		{"authorization", "/?access_token=%s", nil, 401},
		{"query", "/", nil, 401},
		{"query", "/?access_token=", nil, 403},
	} {
		c := newChain(t, threescale.Settings{}, openID, oidcProxy(`,"credentials_location":"`+tc.location+`"`), s.oidc("k"))
		token := s.token("k", `{}`)
		var fields [][2]string
		if tc.field != nil {
			fields = append(fields, tc.field(token))
		}
		target := strings.Replace(tc.target, "%s", token, 1)
		if k := c.get(target, fields...); k.status() != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.location, tc.target, k.status(), tc.want)
		}
	}
}

// Field case 87: a token of another realm, whose key nobody knows, does not pass,
// and does not make the gateway ask for keys more than once a minute.
func TestUnknownKey(t *testing.T) {
	a, b := newSigner(t), newSigner(t)
	c := newChain(t, threescale.Settings{}, openID, oidcProxy(""), a.oidc("a1"))
	var mu sync.Mutex
	asked := map[string]int{}
	c.product.Runtime.UnknownKey = func(issuer string) {
		mu.Lock()
		defer mu.Unlock()
		asked[issuer]++
	}
	for i := range 100 {
		token := b.token("b1", fmt.Sprintf(`{"iss":"https://sso.test/b%d"}`, i%2))
		if i%2 == 1 { // whatever else the header may say
			token = b.token("", `{}`)
		}
		if k := c.get("/", bearer(token)); k.status() != 403 || k.To.Upstream != nil {
			t.Fatalf("%d", k.status())
		}
	}
	if len(c.backend.Calls()) != 0 {
		t.Error("the backend was asked")
	}
	if asked["https://sso.test/a"] != 1 || len(asked) != 1 {
		t.Errorf("keys were asked for: %v", asked)
	}
	if k := c.get("/", bearer(a.token("a1", `{}`))); k.status() != 200 {
		t.Errorf("the issuer's own: %d", k.status())
	}
	if k := c.get("/", bearer(b.token("a1", `{}`))); k.status() != 403 {
		t.Errorf("forged: %d", k.status())
	}
}

// Without what is to be known of an issuer nobody passes.
func TestNoIssuer(t *testing.T) {
	s := newSigner(t)
	for _, oidc := range []string{"", "null", "false", `{}`, `{"issuer":"https://sso.test/a"}`, strings.Replace(s.oidc("k"), "ES256", "RS256", 1), strings.Replace(s.oidc("k"), "BEGIN", "BEGUN", 1)} {
		c := newChain(t, threescale.Settings{}, openID, oidcProxy(""), oidc)
		if k := c.get("/", bearer(s.token("k", `{}`))); k.status() != 403 {
			t.Errorf("%s: %d", oidc, k.status())
		}
	}
}

// Field case 91: a valid token that was not seen before, while the backend is
// down.
func TestNewTokenBackendDown(t *testing.T) {
	s := newSigner(t)
	for _, tc := range []struct {
		caching    string
		seen, news int
	}{
		{"strict", 200, 403}, {"resilient", 200, 403}, {"allow", 200, 200}, {"none", 403, 403},
	} {
		c := newChain(t, threescale.Settings{}, openID, oidcProxy(""), s.oidc("k"),
			policy{caching.Policy, fmt.Sprintf(`{"caching_type":%q}`, tc.caching)}, policy{Policy, "{}"})
		seen := s.token("k", `{}`)
		c.get("/", bearer(seen))
		c.backend.Calls()
		c.backend.Says(503, nil)
		if k := c.get("/", bearer(seen)); k.status() != tc.seen {
			t.Errorf("%s, a token that was seen: %d, want %d", tc.caching, k.status(), tc.seen)
		}
		c.settled(1)
		if k := c.get("/", bearer(s.token("k", `{}`))); k.status() != tc.news {
			t.Errorf("%s, a new token: %d, want %d", tc.caching, k.status(), tc.news)
		}
	}
}

// An authorization that is remembered belongs to one token.
func TestTokenEnds(t *testing.T) {
	s := newSigner(t)
	c := newChain(t, threescale.Settings{}, openID, oidcProxy(""), s.oidc("k"))
	token := s.token("k", fmt.Sprintf(`{"exp":%.3f}`, float64(time.Now().Add(700*time.Millisecond).UnixMilli())/1000))
	if k := c.get("/", bearer(token)); k.status() != 200 {
		t.Fatal(k.status())
	}
	for i := 0; c.get("/", bearer(token)).status() == 200; i++ {
		if i > 1000 {
			t.Fatal("it does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A token that was seen, whose authorization is remembered, costs no allocation.
func TestSeenTokenAllocatesNothing(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	s := newSigner(t)
	c := newChain(t, threescale.Settings{}, openID, oidcProxy(""), s.oidc("k"))
	x := plugintest.NewCtx("/orders", bearer(s.token("k", `{"realm_access":{"roles":["a","b"]}}`)))
	request := func() {
		x.Path, x.Client = "/orders", "127.0.0.1"
		c.product.Begin(x)
		if reply := c.phases[0].Rewrite(x); reply != nil {
			t.Fatal(reply.Status)
		}
		if reply := c.phases[0].Access(x); reply != nil {
			t.Fatal(reply.Status)
		}
		threescale.End(x)
		x.Reset()
	}
	request()
	if n := testing.AllocsPerRun(200, request); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
