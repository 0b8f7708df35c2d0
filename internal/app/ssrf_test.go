package app

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A trap is a server that nobody has configured.
type trap struct {
	addr string
	hits atomic.Int64
}

func newTrap(t *testing.T) *trap {
	tr := new(trap)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr.addr = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tr.hits.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return tr
}

// tokenFor is a token whose every member that names a place names the trap.
func tokenFor(addr string) string {
	part := func(s string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(s, "TRAP", "http://"+addr+"/x")))
	}
	return part(`{"alg":"RS256","kid":"TRAP","jku":"TRAP","x5u":"TRAP","jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}}`) + "." +
		part(`{"iss":"TRAP","aud":"TRAP","azp":"TRAP","sub":"TRAP","_claim_sources":{"a":{"endpoint":"TRAP"}},"exp":9999999999}`) + ".AAAA"
}

// attempts are requests that name a trap wherever a client can name something.
func attempts(path, addr string) []string {
	var all []string
	for _, target := range []string{path, "http://" + addr + path, "//" + addr + path, path + "/@" + addr + "/", path + "?url=http://" + addr + "/&host=" + addr + "&uri=http://" + addr + "&upstream_host=" + addr} {
		for _, head := range []string{
			"Host: " + addr, "Host: a.test\r\nX-Forwarded-Host: " + addr + "\r\nForwarded: host=" + addr + "\r\nX-Original-URL: http://" + addr + "/\r\nX-Rewrite-URL: http://" + addr + "/",
			"Host: a.test\r\nAuthorization: Bearer " + tokenFor(addr), "Host: a.test\r\nReferer: http://" + addr + "/\r\nOrigin: http://" + addr + "\r\nLocation: http://" + addr,
			"Host: a.test@" + addr, "Host: user:p@" + addr,
		} {
			all = append(all, "GET "+target+" HTTP/1.1\r\n"+head+"\r\nConnection: close\r\n\r\n")
		}
	}
	return all
}

func throw(t *testing.T, to, text string) {
	t.Helper()
	c, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return // it was refused early
	}
	_, _ = io.Copy(io.Discard, c)
}

// redirecting is a service that sends everybody to the trap and notes the paths it
// was asked for.
type redirecting struct {
	*httptest.Server
	mu    sync.Mutex
	paths map[string]bool
}

func newRedirecting(t *testing.T, to string) *redirecting {
	r := &redirecting{paths: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.paths[q.URL.Path] = true
		r.mu.Unlock()
		http.Redirect(w, q, "http://"+to+"/", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *redirecting) asked(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[path]
}

// No client, and no answer of a service, makes the gateway call a place that is
// not configured.
func TestNoForgedCalls(t *testing.T) {
	tr := newTrap(t)
	service := newRedirecting(t, tr.addr)
	s := newSite(t, "")
	for path, plugin := range map[string]string{
		"/auth": `"forward-auth":{"uri":"` + service.URL + `/decide","request_headers":["Host","Authorization","X-Forwarded-Host"]}`,
		"/post": `"forward-auth":{"uri":"` + service.URL + `/decide","request_method":"POST","allow_degradation":true}`,
		"/copy": `"proxy-mirror":{"host":"` + service.URL + `"}`,
		"/log":  `"http-logger":{"uri":"` + service.URL + `/log","batch_max_size":1,"max_retry_count":0,"include_req_body":true}`,
		"/jwt":  `"jwt-auth":{}`,
		"/tls":  `"redirect":{"http_to_https":true}`,
	} {
		s.put("routes"+path, `{"uri":"`+path+`*","plugins":{`+plugin+`},"upstream":{"nodes":{"`+s.echo+`":1}}}`)
		for _, text := range attempts(path, tr.addr) {
			throw(t, strings.TrimPrefix(s.proxy, "http://"), text)
		}
	}
	for _, path := range []string{"/decide", "/log", "/copy"} {
		until(t, path, func() bool { return service.asked(path) })
	}
	service.mu.Lock()
	for path := range service.paths {
		if path != "/decide" && path != "/log" && !strings.Contains(path, "/copy") {
			t.Errorf("the service was asked for %s", path)
		}
	}
	service.mu.Unlock()
	if n := tr.hits.Load(); n != 0 {
		t.Errorf("%d calls to a place that is not configured", n)
	}
}

// The same of products: introspection, the issuer, the backend, the API.
func TestNoForgedProductCalls(t *testing.T) {
	tr := newTrap(t)
	service := newRedirecting(t, tr.addr)
	product := func(id int, host, version, issuer, policies string) string {
		return fmt.Sprintf(`{"id":%d,"backend_version":%q,"backend_authentication_type":"service_token","backend_authentication_value":"t","proxy":{
			"hosts":[%q],"api_backend":%q,"backend":{"endpoint":%q},"oidc_issuer_endpoint":%q,"authentication_method":%q,
			"proxy_rules":[{"http_method":"ANY","pattern":"/","metric_system_name":"hits","delta":1}],
			"policy_chain":[%s{"name":"apicast","version":"builtin","configuration":{}}]}}`, id, version, host, service.URL, service.URL, issuer, version, policies)
	}
	g := productGateway(t, strings.Join([]string{
		product(1, "a.test", "1", "", ""),
		product(2, "b.test", "oidc", service.URL+"/realm", ""),
		product(3, "c.test", "1", "", `{"name":"token_introspection","version":"builtin","configuration":{"auth_type":"client_id+client_secret","introspection_url":"`+service.URL+`/introspect","client_id":"c","client_secret":"s"}},`),
		product(4, "d.test", "1", "", `{"name":"jwt_parser","version":"builtin","configuration":{"issuer_endpoint":"`+service.URL+`/realm","required":true}},`),
	}, ","))
	defer stop(t, g)
	_, port, _ := net.SplitHostPort(g.Products()[0].String())
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
		for _, text := range attempts("/p", tr.addr) {
			text = strings.Replace(text, "Host: a.test\r\n", "Host: "+host+"\r\n", 1)
			text = strings.NewReplacer("/p HTTP", "/p?user_key=k HTTP", "/p?", "/p?user_key=k&").Replace(text)
			throw(t, "127.0.0.1:"+port, text)
		}
	}
	until(t, "introspection", func() bool { return service.asked("/introspect") })
	if n := tr.hits.Load(); n != 0 {
		t.Errorf("%d calls to a place that is not configured", n)
	}
}
