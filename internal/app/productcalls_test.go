package app

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A threescaleWorld plays 3scale's backend, APIs and a forward proxy to both.
type threescaleWorld struct {
	mu      sync.Mutex
	backend []string // requests: path?query or body
	proxied []string // request lines at the proxy

	backendURL, apiURL, secureURL, proxyURL string
}

func newThreescaleWorld(t *testing.T) *threescaleWorld {
	t.Helper()
	w := new(threescaleWorld)
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	w.backendURL = serve(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.backend = append(w.backend, r.URL.Path+"?"+r.URL.RawQuery+string(body))
		if r.URL.Query().Get("user_key") == "other" {
			rw.WriteHeader(409)
		}
	})
	api := func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s host %s secret %s real %s proxy %q forwarded %q body %q", r.Method, r.RequestURI, r.Host,
			r.Header.Get("X-3scale-proxy-secret-token"), r.Header.Get("X-Real-IP"), r.Header.Get("Proxy-Authorization"),
			r.Header.Get("X-Forwarded-For"), body)
	}
	w.apiURL = serve(api)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(api))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	secure.StartTLS()
	t.Cleanup(secure.Close)
	w.secureURL = secure.URL
	w.proxyURL = serve(w.forward)
	return w
}

// forward is the forward proxy.
func (w *threescaleWorld) forward(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.proxied = append(w.proxied, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	w.mu.Unlock()
	if r.Method != "CONNECT" {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			rw.WriteHeader(502)
			return
		}
		defer res.Body.Close()
		rw.WriteHeader(res.StatusCode)
		io.Copy(rw, res.Body)
		return
	}
	far, err := net.Dial("tcp", r.Host)
	if err != nil {
		rw.WriteHeader(502)
		return
	}
	defer far.Close()
	near, buffered, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(far, buffered)
		far.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(near, far)
}

func (w *threescaleWorld) took() (backend, proxied []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	backend, proxied, w.backend, w.proxied = w.backend, w.proxied, nil, nil
	return backend, proxied
}

// product is the document of a product with a chain.
func (w *threescaleWorld) product(host, api, chain string) string {
	if chain != "" {
		chain = `,"policy_chain":[` + chain + `]`
	}
	return fmt.Sprintf(`{"id":7,"backend_version":1,"backend_authentication_type":"service_token","backend_authentication_value":"token","proxy":{
		"hosts":[%q],"api_backend":%q,"secret_token":"s3","backend":{"endpoint":%q},
		"proxy_rules":[{"http_method":"ANY","pattern":"/","metric_system_name":"hits","delta":1}]%s}}`, host, api, w.backendURL, chain)
}

func productGateway(t *testing.T, service string, vars ...string) *Gateway {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "products.json")
	if err := os.WriteFile(file, []byte(productsOf(service)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := accountOptions(t, dir, file, vars...)
	return start(t, o)
}

// send returns the status and the body of a request to a product.
func send(t *testing.T, g *Gateway, method, host, target, body string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+g.Products()[0].String()+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for k, v := range header {
		r.Header[k] = v
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func hostOfURL(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A product from the request to its API, with the backend asked first and told
// afterwards; what is still to be told goes out before the end.
func TestProductCalls(t *testing.T) {
	w := newThreescaleWorld(t)
	g := productGateway(t, w.product("one.test", w.apiURL+"/base", ""))
	want := fmt.Sprintf(`GET /base/a%%20b?user_key=k host %s secret s3 real 127.0.0.1 proxy "" forwarded "" body ""`, hostOfURL(t, w.apiURL))
	for range 3 {
		if status, body := send(t, g, "GET", "one.test", "/a%20b?user_key=k", "", http.Header{"X-3scale-Debug": {"other"}}); status != 200 || strings.Replace(body, "real ::1", "real 127.0.0.1", 1) != want {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	if status, body := send(t, g, "GET", "one.test", "/", "", nil); status != 401 || body != "Authentication parameters missing" {
		t.Error(status, body)
	}
	if status, body := send(t, g, "GET", "one.test", "/?user_key=other", "", nil); status != 403 || body != "Authentication failed" {
		t.Error(status, body)
	}
	_, metrics := get(t, "http://"+g.ProductMetrics().String()+"/metrics")
	if !strings.Contains(metrics, `threescale_backend_calls{endpoint="authrep",status="4xx"} 1`) {
		t.Error(metrics)
	}
	stop(t, g)
	backend, _ := w.took()
	count := map[string]int{}
	for _, call := range backend {
		count[call]++
	}
	if n := count["/transactions/authrep.xml?service_id=7&service_token=token&usage%5Bhits%5D=1&user_key=k"]; n != 3 || len(backend) != 4 {
		t.Errorf("the backend got %v", backend)
	}
}

func TestProductBatchAtTheEnd(t *testing.T) {
	w := newThreescaleWorld(t)
	g := productGateway(t, w.product("one.test", w.apiURL,
		`{"name":"3scale_batcher","configuration":{"batch_report_seconds":1000}},{"name":"apicast"}`))
	for range 5 {
		if status, body := send(t, g, "GET", "one.test", "/?user_key=k", "", nil); status != 200 {
			t.Fatal(status, body)
		}
	}
	stop(t, g)
	backend, _ := w.took()
	want := "/transactions.xml?service_id=7&service_token=tokentransactions%5B0%5D%5Buser_key%5D=k&transactions%5B0%5D%5Busage%5D%5Bhits%5D=5"
	if len(backend) != 2 || backend[1] != want {
		t.Errorf("%v", backend)
	}
}

// Forward proxies of policies and of the environment (apicast.md §4.6).
func TestProductProxies(t *testing.T) {
	w := newThreescaleWorld(t)
	api, secure, backend := hostOfURL(t, w.apiURL), hostOfURL(t, w.secureURL), hostOfURL(t, w.backendURL)
	proxy := strings.Replace(w.proxyURL, "http://", "http://user:pass@", 1)
	const basic = "Basic dXNlcjpwYXNz"
	policy := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"configuration":{"all_proxy":%q}},{"name":"apicast"}`, name, proxy)
	}
	authrep := "GET http://" + backend + "/transactions/authrep.xml?service_id=7&service_token=token&usage%5Bhits%5D=1&user_key=k " + basic
	for _, tc := range []struct {
		name, api, chain string
		vars             []string
		status           int
		own              string   // Proxy-Authorization of the client
		asks             string   // that the API sees
		proxied          []string // at the proxy
	}{
		{name: "policy, http", api: w.apiURL + "/b", chain: policy("http_proxy"), status: 200, asks: basic,
			proxied: []string{"POST http://" + api + "/b/x?user_key=k " + basic}},
		{name: "the client's own", api: w.apiURL, chain: policy("http_proxy"), own: "Basic own", status: 200, asks: "Basic own",
			proxied: []string{"POST http://" + api + "/x?user_key=k Basic own"}},
		{name: "the client's own, without a proxy", api: w.apiURL, own: "Basic own", status: 200},
		{name: "policy, https", api: w.secureURL, chain: policy("http_proxy"), status: 200, proxied: []string{"CONNECT " + secure + " " + basic}},
		{name: "camel, http", api: w.apiURL, chain: policy("camel"), status: 200, proxied: []string{"POST http://" + api + "/x?user_key=k "}},
		{name: "environment, http", api: w.apiURL, vars: []string{"http_proxy=" + proxy}, status: 200, asks: basic,
			proxied: []string{authrep, "POST http://" + api + "/x?user_key=k " + basic}},
		{name: "environment, all", api: w.secureURL, vars: []string{"ALL_PROXY=" + proxy}, status: 200,
			proxied: []string{authrep, "CONNECT " + secure + " " + basic}},
		{name: "not for this host", api: w.apiURL, vars: []string{"http_proxy=" + proxy, "no_proxy=127.0.0.1"}, status: 200},
		{name: "the policy's before the environment's", api: w.apiURL, chain: `{"name":"http_proxy","configuration":{}},{"name":"apicast"}`,
			vars: []string{"http_proxy=" + proxy}, status: 200, proxied: []string{authrep}},
		{name: "verified", api: w.secureURL, vars: []string{"https_proxy=" + proxy, "OPENSSL_VERIFY=true"}, status: 503,
			proxied: []string{"CONNECT " + secure + " " + basic}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := productGateway(t, w.product("one.test", tc.api, tc.chain), tc.vars...)
			defer stop(t, g)
			header := http.Header{}
			if tc.own != "" {
				header.Set("Proxy-Authorization", tc.own)
			}
			status, body := send(t, g, "POST", "one.test", "/x?user_key=k", "hello", header)
			if status != tc.status {
				t.Errorf("%d %s", status, body)
			}
			if status == 200 && !strings.Contains(body, fmt.Sprintf("proxy %q", tc.asks)) || !strings.Contains(body, `body "hello"`) && status == 200 {
				t.Error(body)
			}
			if _, proxied := w.took(); strings.Join(proxied, "\n") != strings.Join(tc.proxied, "\n") {
				t.Errorf("the proxy got %q, want %q", proxied, tc.proxied)
			}
		})
	}
}

// Camel gets requests for https as they are, over TLS.
func TestProductCamel(t *testing.T) {
	w := newThreescaleWorld(t)
	var mu sync.Mutex
	var asked string
	camel := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = r.Method + " " + r.RequestURI + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
		mu.Unlock()
		io.WriteString(rw, "camel")
	}))
	defer camel.Close()
	g := productGateway(t, w.product("one.test", "https://api.test:8443/base", fmt.Sprintf(
		`{"name":"apicast"},{"name":"camel","configuration":{"https_proxy":%q}}`, "http://u:p@"+hostOfURL(t, camel.URL))))
	defer stop(t, g)
	if status, body := send(t, g, "GET", "one.test", "/x?user_key=k", "", nil); status != 200 || body != "camel" {
		t.Error(status, body)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "GET https://api.test:8443/base/x?user_key=k api.test:8443 "; asked != want {
		t.Errorf("camel got %q, want %q", asked, want)
	}
}

// A backend that fails refuses everybody: the log says why.
func TestProductFailingBackend(t *testing.T) {
	w := newThreescaleWorld(t)
	failing := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }))
	defer failing.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "products.json")
	if err := os.WriteFile(file, []byte(productsOf(w.product("one.test", w.apiURL, ""))), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := accountOptions(t, dir, file, "BACKEND_ENDPOINT_OVERRIDE="+failing.URL)
	g := start(t, o)
	if status, _ := send(t, g, "GET", "one.test", "/?user_key=hush", "", nil); status != 403 {
		t.Error(status)
	}
	stop(t, g)
	said, err := os.ReadFile(filepath.Join(dir, "error.log"))
	if err != nil || !strings.Contains(string(said), "3scale's backend did not answer") || !strings.Contains(string(said), "status 503") || strings.Contains(string(said), "hush") {
		t.Error(err, string(said))
	}
}

// The backend is slow: that costs the requests that must wait for it, and no
// others.
func TestProductSlowBackend(t *testing.T) {
	w := newThreescaleWorld(t)
	release := make(chan struct{})
	var once sync.Once
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("user_key") == "slow" {
			<-release
		}
	}))
	defer slow.Close()
	defer once.Do(func() { close(release) })
	g := productGateway(t, w.product("one.test", w.apiURL, ""), "BACKEND_ENDPOINT_OVERRIDE="+slow.URL)
	defer stop(t, g)
	defer once.Do(func() { close(release) })
	if status, _ := send(t, g, "GET", "one.test", "/?user_key=quick", "", nil); status != 200 {
		t.Fatal(status)
	}
	done := make(chan int, 1)
	go func() {
		status, _ := send(t, g, "GET", "one.test", "/?user_key=slow", "", nil)
		done <- status
	}()
	for range 50 {
		if status, _ := send(t, g, "GET", "one.test", "/?user_key=quick", "", nil); status != 200 {
			t.Fatal(status)
		}
	}
	select {
	case status := <-done:
		t.Fatalf("the slow one is answered %d", status)
	default:
	}
	once.Do(func() { close(release) })
	select {
	case status := <-done:
		if status != 200 {
			t.Error(status)
		}
	case <-time.After(10 * time.Second):
		t.Error("the slow one is not answered")
	}
}
