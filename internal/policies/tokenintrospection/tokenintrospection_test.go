package tokenintrospection

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A server is asked about tokens.
type server struct {
	*httptest.Server
	asked atomic.Int64
	says  atomic.Value // a string: the body, or a status
	last  atomic.Pointer[http.Request]
}

func start(t *testing.T) *server {
	s := new(server)
	s.says.Store(`{"active": true}`)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		s.last.Store(r)
		switch says := s.says.Load().(string); says {
		case "500":
			w.WriteHeader(500)
			fmt.Fprint(w, `{"active": true}`)
		case "302":
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(302)
		default:
			fmt.Fprint(w, says)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// A bench compiles configurations at a time of its own.
type bench struct {
	t   *testing.T
	now atomic.Int64
	rt  *threescale.Runtime
	*server
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, server: start(t)}
	b.now.Store(1_700_000_000)
	b.rt = threescaletest.Runtime(func() time.Time { return time.Unix(b.now.Load(), 0) })
	t.Cleanup(b.rt.Close)
	return b
}

const service = `{"proxy":{"error_auth_failed":"no","error_status_auth_failed":402}}`

func (b *bench) compile(service, oidc, config string) (plugin.Phases, *threescale.Product) {
	b.t.Helper()
	p := threescaletest.Product(b.t, b.rt, service, oidc)
	return threescaletest.Compile(b.t, p, Policy, strings.ReplaceAll(config, "{server}", b.URL)), p
}

func (b *bench) passes(ph plugin.Phases, p *threescale.Product, authorization string) bool {
	b.t.Helper()
	c := threescaletest.Ctx(p, "/")
	if authorization != "" {
		c.Request.Header.Add("Authorization", authorization)
	}
	r := ph.Access(c)
	if r != nil && (r.Status != 402 || string(r.Body) != "no\n") {
		b.t.Errorf("answered %d %q", r.Status, r.Body)
	}
	return r == nil
}

func TestAnswers(t *testing.T) {
	b := newBench(t)
	ph, p := b.compile(service, "", `{"auth_type":"client_id+client_secret","client_id":"app","client_secret":"sec:ret","introspection_url":"{server}/introspection"}`)
	for _, tc := range []struct {
		says string
		ok   bool
	}{
		{`{"active": true}`, true}, {`{"active":true,"exp":1}`, true},
		{`{"active": false}`, false}, {`{"active":"true"}`, false}, {`{"active":1}`, false}, {`{}`, false}, {`{"Active":true}`, false},
		{`null`, false}, {`true`, false}, {`[]`, false}, {``, false}, {`<html>`, false}, {`{"active": true`, false}, {"500", false}, {"302", false},
		{strings.Repeat(" ", 2<<20) + `{"active":true}`, false},
	} {
		b.says.Store(tc.says)
		if got := b.passes(ph, p, "Bearer token+&"); got != tc.ok {
			t.Errorf("%.40s: passes %v", tc.says, got)
		}
		r := b.last.Load()
		user, password, _ := r.BasicAuth()
		if r.Method != "POST" || r.URL.Path != "/introspection" || user != "app" || password != "sec:ret" ||
			r.PostForm.Get("token") != "token+&" || r.PostForm.Get("token_type_hint") != "access_token" || len(r.PostForm) != 2 {
			t.Errorf("asked %s %s %s:%s %v", r.Method, r.URL, user, password, r.PostForm)
		}
	}
	asked := b.asked.Load()
	for _, authorization := range []string{"", "Bearer ", "Basic abc", "bearer abc"} {
		if b.passes(ph, p, authorization) {
			t.Errorf("%q passes", authorization)
		}
	}
	if b.asked.Load() != asked {
		t.Error("what is no token is asked about")
	}
	b.server.Close()
	if b.passes(ph, p, "Bearer token") {
		t.Error("passes while the server is down")
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}

func TestIssuerEndpoint(t *testing.T) {
	b := newBench(t)
	service := `{"backend_version":"oauth","proxy":{"authentication_method":"%s","oidc_issuer_endpoint":"http://app:app%%2Fsec@sso.test/realm","error_auth_failed":"no","error_status_auth_failed":402}}`
	const config = `{"auth_type":"use_3scale_oidc_issuer_endpoint"}`
	for _, tc := range []struct {
		method, oidc string
		ok           bool
	}{
		{"oidc", `{"issuer":"i","config":{"introspection_endpoint":"` + b.URL + `"}}`, true},
		{"oidc", `{"issuer":"i","config":{"token_introspection_endpoint":"` + b.URL + `"}}`, true},
		{"oidc", `{"issuer":"i","config":{}}`, false},
		{"oidc", "", false},
		{"1", `{"issuer":"i","config":{"introspection_endpoint":"` + b.URL + `"}}`, false},
	} {
		ph, p := b.compile(fmt.Sprintf(service, tc.method), tc.oidc, config)
		if got := b.passes(ph, p, "Bearer token"); got != tc.ok {
			t.Errorf("%+v: passes %v", tc, got)
		}
	}
	if user, password, _ := b.last.Load().BasicAuth(); user != "app" || password != "app%2Fsec" {
		t.Errorf("%s:%s", user, password)
	}
}

// assertion checks what the gateway says of itself.
func (b *bench) assertion(alg string, verify func(text, signature []byte) bool) {
	b.t.Helper()
	f := b.last.Load().PostForm
	parts := strings.Split(f.Get("client_assertion"), ".")
	if len(parts) != 3 || f.Get("client_id") != "app" || f.Get("client_assertion_type") != assertionType || b.last.Load().Header.Get("Authorization") != "" {
		b.t.Fatalf("%v", f)
	}
	var decoded [3][]byte
	for i := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(parts[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	var a assertion
	if err := json.Unmarshal(decoded[1], &a); err != nil {
		b.t.Fatal(err)
	}
	now := b.now.Load()
	if string(decoded[0]) != `{"typ":"JWT","alg":"`+alg+`"}` || a.Issuer != "app" || a.Subject != "app" || a.Audience != "https://sso.test" ||
		len(a.ID) < 20 || a.Issued != now || a.Expires != now+90 {
		b.t.Errorf("%s %+v", decoded[0], a)
	}
	if !verify([]byte(parts[0]+"."+parts[1]), decoded[2]) {
		b.t.Error("the signature is wrong")
	}
}

func TestAssertions(t *testing.T) {
	b := newBench(t)
	const common = `"client_id":"app","introspection_url":"{server}","client_jwt_assertion_audience":"https://sso.test","client_jwt_assertion_expires_in":90`
	ph, p := b.compile(service, "", `{"auth_type":"client_secret_jwt","client_secret":"appsec",`+common+`}`)
	if !b.passes(ph, p, "Bearer token") {
		t.Error("refused")
	}
	b.assertion("HS256", func(text, signature []byte) bool {
		m := hmac.New(sha256.New, []byte("appsec"))
		m.Write(text)
		return hmac.Equal(m.Sum(nil), signature)
	})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	one := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{
		`"certificate_type":"path","certificate":"` + file + `"`,
		`"certificate":"` + file + `"`,
		`"certificate_type":"embedded","certificate":"data:application/x-x509-ca-cert;name=rsa.pem;base64,` + base64.StdEncoding.EncodeToString(one) + `"`,
	} {
		ph, p := b.compile(service, "", `{"auth_type":"private_key_jwt",`+where+`,`+common+`}`)
		if !b.passes(ph, p, "Bearer token") {
			t.Errorf("%s: refused", where)
		}
		b.assertion("RS256", func(text, signature []byte) bool {
			digest := sha256.Sum256(text)
			return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, digest[:], signature) == nil
		})
	}
	for _, where := range []string{
		`"certificate":"/nowhere"`, `"certificate":"/"`, `"certificate":"` + os.DevNull + `"`,
		`"certificate_type":"embedded","certificate":"data:,x"`, `"certificate_type":"embedded","certificate":"` + file + `"`,
	} {
		config := `{"auth_type":"private_key_jwt",` + where + `,"client_id":"app","introspection_url":"http://a.test"}`
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is a key", where)
		}
	}
}

func TestCache(t *testing.T) {
	b := newBench(t)
	const config = `{"client_id":"a","client_secret":"b","introspection_url":"{server}"%s}`
	ask := func(ph plugin.Phases, p *threescale.Product, token string, passes bool, asked int64) {
		t.Helper()
		before := b.asked.Load()
		if got := b.passes(ph, p, "Bearer "+token); got != passes {
			t.Errorf("passes %v", got)
		}
		if n := b.asked.Load() - before; n != asked {
			t.Errorf("asked %d times, want %d", n, asked)
		}
	}
	for name, tc := range map[string]struct {
		more, says string
		keeps      int64 // seconds
	}{
		"off":                     {`,"max_ttl_tokens":100`, `{"active":true}`, 0},
		"off, 0":                  {`,"max_ttl_tokens":100,"max_cached_tokens":0`, `{"active":true}`, 0},
		"as configured":           {`,"max_ttl_tokens":100,"max_cached_tokens":10`, `{"active":true}`, 100},
		"as text":                 {`,"max_ttl_tokens":100,"max_cached_tokens":"10"`, `{"active":true}`, 100},
		"as valid":                {`,"max_cached_tokens":10`, `{"active":true,"exp":1700000050}`, 50},
		"as valid, in text":       {`,"max_cached_tokens":10`, `{"active":true,"exp":"1700000050"}`, 50},
		"the shorter, configured": {`,"max_ttl_tokens":20,"max_cached_tokens":10`, `{"active":true,"exp":1700000050}`, 20},
		"the shorter, valid":      {`,"max_ttl_tokens":100,"max_cached_tokens":10`, `{"active":true,"exp":1700000050}`, 50},
		"no end":                  {`,"max_cached_tokens":10`, `{"active":true}`, 0},
		"ended":                   {`,"max_cached_tokens":10`, `{"active":true,"exp":1600000000}`, 0},
		"inactive":                {`,"max_ttl_tokens":100,"max_cached_tokens":10`, `{"active":false}`, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b.now.Store(1_700_000_000)
			b.says.Store(tc.says)
			ph, p := b.compile(service, "", fmt.Sprintf(config, tc.more))
			active := name != "inactive"
			ask(ph, p, "one", active, 1)
			if tc.keeps == 0 {
				ask(ph, p, "one", active, 1)
				return
			}
			b.now.Add(tc.keeps - 1)
			ask(ph, p, "one", active, 0)
			b.now.Add(1)
			ask(ph, p, "one", active, 1)
		})
	}
	b.now.Store(1_700_000_000)
	b.says.Store("500")
	ph, p := b.compile(service, "", fmt.Sprintf(config, `,"max_ttl_tokens":100,"max_cached_tokens":2`))
	ask(ph, p, "one", false, 1)
	b.says.Store(`{"active":true}`)
	ask(ph, p, "one", true, 1) // a failure is not kept
	ask(ph, p, "two", true, 1)
	ask(ph, p, "one", true, 0)
	ask(ph, p, "three", true, 1) // in the place of two
	ask(ph, p, "one", true, 0)
	ask(ph, p, "two", true, 1)
}

// TestTogether: requests with the same token share an answer.
func TestTogether(t *testing.T) {
	var asked atomic.Int64
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-release
		fmt.Fprint(w, `{"active":true}`)
	}))
	defer s.Close()
	rt := threescaletest.Runtime(time.Now)
	defer rt.Close()
	p := threescaletest.Product(t, rt, service, "")
	ph := threescaletest.Compile(t, p, Policy, `{"client_id":"a","client_secret":"b","introspection_url":"`+s.URL+`","max_cached_tokens":10,"max_ttl_tokens":10}`)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range 20 {
		c := threescaletest.Ctx(p, "/", [2]string{"Authorization", "Bearer token"})
		wg.Go(func() {
			if ph.Access(c) == nil {
				passed.Add(1)
			}
		})
	}
	close(release)
	wg.Wait()
	if passed.Load() != 20 || asked.Load() != 1 {
		t.Errorf("%d of 20 passed, asked %d times", passed.Load(), asked.Load())
	}
}

// TestLost: who waits for an answer that is never given is refused.
func TestLost(t *testing.T) {
	s := newAnswers(1)
	func() {
		defer func() { _ = recover() }()
		_, _ = s.get("t", time.Now, func() (answer, error) { panic("lost") })
	}()
	if ok, err := s.get("t", time.Now, func() (answer, error) { return answer{active: true}, nil }); !ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	if len(s.asked) != 0 || s.order.Len() != 0 {
		t.Errorf("%d on their way, %d kept", len(s.asked), s.order.Len())
	}
}

func TestUserInfo(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a:b@h/x": "a b", "https://a@h": "a ", "http://h/a:b@c": " ", "http://a:b:c@h": "a b:c", "http://a:b@c@h": "a b@c", "": " ",
	} {
		id, secret := userInfo(raw)
		if got := id + " " + secret; got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestForm(t *testing.T) {
	var f form
	f.add("a", "x&y=z +")
	f.add("b", "")
	if got, err := url.ParseQuery(f.String()); err != nil || got.Get("a") != "x&y=z +" || len(got) != 2 {
		t.Errorf("%s: %v", f.String(), err)
	}
}

func TestInvalid(t *testing.T) {
	p := threescaletest.Product(t, nil, `{}`, "")
	for _, config := range []string{`{"auth_type":"none"}`, `{"introspection_url":"ftp://a"}`, `{"max_cached_tokens":"x"}`} {
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
}
