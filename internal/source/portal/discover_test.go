package portal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a network without anybody.
func failing(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nobody there")
}

// An idp is a token issuer and a portal without a network.
type idp struct {
	mu       sync.Mutex
	kid      string
	issuer   string
	services string // the portal's answer
	status   int    // of the issuer's answers
	kind     string // Content-Type
	asked    map[string]int
}

func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[r.URL.Path]++
	res, err := transport(func(r *http.Request) (int, string) {
		switch {
		case r.URL.Host == "portal":
			return 200, p.services
		case r.URL.Path == "/jwks":
			return p.status, `{"keys":[{"kty":"RSA","kid":"` + p.kid + `","alg":"RS256"},{"kty":"oct"}]}`
		}
		return p.status, `{ "issuer":"` + p.issuer + `", "jwks_uri":"http://idp/jwks","id_token_signing_alg_values_supported":["RS256"]}`
	}).RoundTrip(r)
	if p.kind != "" {
		res.Header.Set("Content-Type", p.kind)
	}
	return res, err
}

func (p *idp) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func oidc(id int, endpoint string) string {
	return svc(id, fmt.Sprint("h", id), `,"authentication_method":"oidc","oidc_issuer_endpoint":"`+endpoint+`"`)
}

func newIDP(docs ...string) *idp {
	return &idp{kid: "k1", issuer: "https://name", status: 200, services: configs(docs...)}
}

func TestDiscovery(t *testing.T) {
	p := newIDP(oidc(1, "http://user:pass@idp/realm/"), oidc(2, "http://user:pass@idp/realm/"), svc(3, "c", ""), oidc(4, "idp/realm"))
	b := start(t, Config{Endpoint: "http://portal", TTL: time.Hour, Transport: p}).started()
	want := `"oidc":{"issuer":"https://name","config":{"issuer":"https://name","jwks_uri":"http://idp/jwks","id_token_signing_alg_values_supported":["RS256"]},"keys":{"k1":{"kty":"RSA","kid":"k1","alg":"RS256"}}}}`
	for _, id := range []string{"1", "2"} {
		if got := b.product(id); !strings.HasSuffix(got, want) {
			t.Error(got)
		}
	}
	if strings.Contains(b.product("3"), `"oidc":`) || strings.Contains(b.product("4"), `"oidc":`) {
		t.Error(b.product("3"), b.product("4"))
	}
	if p.count("/realm/.well-known/openid-configuration") != 1 || p.count("/jwks") != 1 {
		t.Error(p.asked)
	}
	if !b.logged("OIDC url is not valid, uri:") || b.logged("pass@") {
		t.Error(b.log.String())
	}
	// Policies ask for issuers of their own.
	o, err := b.Discover(t.Context(), "http://idp/another")
	if err != nil || o.Issuer != "https://name" || len(o.Algorithms) != 1 || o.Keys["k1"].Alg != "RS256" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := b.Discover(t.Context(), "idp"); err == nil {
		t.Error("an endpoint that is no URL")
	}
}

// An issuer whose keys are where its configuration is has none.
func TestDiscoveryOfItself(t *testing.T) {
	transport := transport(func(r *http.Request) (int, string) {
		if r.URL.Host == "portal" {
			return 200, configs(oidc(1, "http://idp"))
		}
		return 200, `{"issuer":"i","jwks_uri":"http://idp/.well-known/openid-configuration"}`
	})
	b := start(t, Config{Endpoint: "http://portal", TTL: time.Hour, Transport: transport}).started()
	if !strings.Contains(b.product("1"), `"keys":{}`) {
		t.Error(b.product("1"))
	}
}

// What an issuer said last stays, whatever it says now.
func TestDiscoveryFails(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*idp)
		want string
	}{
		"down":    {func(p *idp) { p.status = 0 }, "unexpected EOF"},
		"404":     {func(p *idp) { p.status = 404 }, "invalid status: 404"},
		"no JSON": {func(p *idp) { p.kind = "text/html" }, "not json"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newIDP(oidc(1, "http://idp"))
			b := start(t, Config{Endpoint: "http://portal", TTL: time.Minute, Transport: p})
			defer b.stop()
			synctest.Wait()
			p.mu.Lock()
			c.do(p)
			p.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !b.logged(c.want) || b.steps() != 1 || !strings.Contains(b.product("1"), `"k1"`) {
				t.Errorf("%s: %s, %s", name, b.product("1"), b.log.String())
			}
		})
	}
}

// An issuer that was not there when the gateway started is asked again.
func TestDiscoveryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(oidc(1, "http://idp"))
		p.status = 503
		b := start(t, Config{Endpoint: "http://portal", TTL: time.Hour, Transport: p})
		defer b.stop()
		synctest.Wait()
		if strings.Contains(b.product("1"), `"oidc":`) {
			t.Error(b.product("1"))
		}
		p.mu.Lock()
		p.status = 200
		p.mu.Unlock()
		time.Sleep(time.Minute + time.Second)
		if !strings.Contains(b.product("1"), `"k1"`) {
			t.Error(b.product("1"))
		}
	})
}

// New keys come with the configuration's refresh.
func TestRediscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(oidc(1, "http://idp"), svc(2, "b", ""))
		b := start(t, Config{Endpoint: "http://portal", TTL: 30 * time.Second, Transport: p})
		defer b.stop()
		synctest.Wait()
		p.mu.Lock()
		p.kid = "k2"
		p.mu.Unlock()
		time.Sleep(31 * time.Second)
		if got := sum(b.last()); got != "1" || !strings.Contains(b.product("1"), `"k2"`) {
			t.Error(got, b.product("1"))
		}
	})
}

// However many tokens name a key that is not known, the issuer is asked once a
// minute.
func TestUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(oidc(1, "http://idp"), svc(2, "b", ""))
		b := start(t, Config{Endpoint: "http://portal", TTL: 10 * time.Hour, Transport: p})
		defer b.stop()
		synctest.Wait()
		p.mu.Lock()
		p.kid = "k2"
		p.mu.Unlock()
		for range 600 { // ten minutes
			for range 10 {
				b.UnknownKey("https://name")
				b.UnknownKey("http://idp")
				b.UnknownKey("https://somebody else")
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := p.count("/jwks"); n != 10 {
			t.Errorf("%d fetches in ten minutes", n)
		}
		if got := sum(b.last()); b.steps() != 2 || got != "1" || !strings.Contains(b.product("1"), `"k2"`) {
			t.Error(b.steps(), got, b.product("1"))
		}
	})
}

// However many issuers do not answer, the configuration is there when one of them
// has had its time, and those that answered last are asked first.
func TestManySilentIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silent = 300
		var docs []string
		for i := range silent {
			docs = append(docs, oidc(i+10, fmt.Sprintf("http://silent%d", i)))
		}
		docs = append(docs, svc(1, "a", ""))
		var mu sync.Mutex
		list, down := configs(append([]string{oidc(2, "http://idp")}, docs...)...), true
		p := roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			list, down := list, down
			mu.Unlock()
			if strings.HasPrefix(r.URL.Host, "silent") && down {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return transport(func(r *http.Request) (int, string) {
				switch {
				case r.URL.Host == "portal":
					return 200, list
				case r.URL.Path == "/jwks":
					return 200, `{"keys":[{"kty":"RSA","kid":"k1","alg":"RS256"}]}`
				}
				return 200, `{"issuer":"https://name","jwks_uri":"http://idp/jwks","id_token_signing_alg_values_supported":["RS256"]}`
			}).RoundTrip(r)
		})
		b := start(t, Config{Endpoint: "http://portal", TTL: 5 * time.Minute, Transport: p})
		defer b.stop()
		begun := time.Now()
		b.started()
		if took := time.Since(begun); took > discoveryTime+time.Second || b.Len() != silent+2 || !strings.Contains(b.product("2"), `"k1"`) {
			t.Fatalf("%v, %d products, %s", took, b.Len(), b.product("2"))
		}
		// An issuer that comes behind all those is asked before them.
		mu.Lock()
		list = configs(append(docs, oidc(3, "http://idp/other"), oidc(2, "http://idp"))...)
		mu.Unlock()
		time.Sleep(discoveryPause)
		b.reload()
		if !strings.Contains(b.product("3"), `"k1"`) || !strings.Contains(b.product("2"), `"k1"`) {
			t.Error(b.product("3"), b.product("2"))
		}
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(unknownKeyEvery + 2*discoveryTime)
		synctest.Wait()
		for i := range silent {
			if id := fmt.Sprint(i + 10); !strings.Contains(b.product(id), `"k1"`) {
				t.Fatal(id, b.product(id))
			}
		}
	})
}

// A roundTripper is one that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An issuer that answers without end takes no more than is an issuer's.
func TestEndlessIssuer(t *testing.T) {
	is := &issuers{room: room{limit: discoveryRoom, each: issuerRoom, setting: "fixed"}}
	v, w := is.room.enter(), is.room.enter()
	if err := v.take(issuerRoom + 1); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes are answered") {
		t.Error(err)
	}
	for range issuersAtOnce {
		_ = is.room.enter().take(issuerRoom + 32<<10) // what is read at once
	}
	if err := w.take(64 << 10); err != nil {
		t.Error(err)
	}
}

func TestAtOnce(t *testing.T) {
	var n atomic.Int32
	atOnce(8, 0, func(int) { n.Add(1) })
	atOnce(8, 100, func(i int) { n.Add(int32(i)) })
	if n.Load() != 4950 {
		t.Error(n.Load())
	}
}
