package app

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/config"
)

// accountOptions are those of a gateway that serves 3scale alone, on free ports
// with its files below dir.
func accountOptions(t testing.TB, dir, configuration string, vars ...string) (Options, *output) {
	t.Helper()
	environ := append([]string{
		"APICAST_HTTP_PORT=0", "APICAST_MANAGEMENT_PORT=0", "APICAST_METRICS_PORT=0",
		"APICAST_LOG_FILE=" + dir + "/error.log", "APICAST_ACCESS_LOG_FILE=" + dir + "/access.log",
	}, vars...)
	a, err := config.LoadAPIcast(configuration, environ)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Alone(c)
	out := new(output)
	return Options{Config: c, APIcast: a, Version: "1.2.3", Out: out}, out
}

// echoing is the document of a product that answers by itself with a status.
func echoing(id int, host string, status int) string {
	return fmt.Sprintf(`{"id":%d,"system_name":"s%d","proxy":{"hosts":["%s"],"policy_chain":[{"name":"apicast.policy.echo","configuration":{"status":%d}}]}}`, id, id, host, status)
}

func productsOf(services ...string) string {
	return `{"services":[` + strings.Join(services, ",") + `]}`
}

// askProduct returns the status of a GET for a host.
func askProduct(t *testing.T, g *Gateway, host, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+g.Products()[0].String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode, res.Header.Get("Server")
}

func TestProducts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "products.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(productsOf(echoing(1, "one.test", 201), echoing(2, "two.test", 202)))
	o, out := accountOptions(t, dir, file, "APICAST_MANAGEMENT_API=debug", "APICAST_EXTENDED_METRICS=true", "APICAST_CUSTOM_CONFIG=x.lua")
	g := start(t, o)
	for _, c := range []struct {
		host   string
		status int
	}{{"one.test", 201}, {"TWO.test:80", 202}, {"three.test", 404}} {
		if status, _ := askProduct(t, g, c.host, "/"); status != c.status {
			t.Errorf("%s: %d, want %d", c.host, status, c.status)
		}
	}
	if status, _ := askProduct(t, g, "three.test", "/_threescale/healthz"); status != 200 {
		t.Error("healthz:", status)
	}
	manage := "http://" + g.Management().String()
	write(productsOf(echoing(2, "two.test", 203), echoing(3, "three.test", 204)))
	compiled := g.state.Work().Compiled["products"]
	if status, body := post(t, manage+"/boot"); status != 200 || !strings.Contains(body, `"status":"ok"`) {
		t.Error(status, body)
	}
	if n := g.state.Work().Compiled["products"] - compiled; n != 2 {
		t.Errorf("%d products were compiled", n)
	}
	for host, want := range map[string]int{"one.test": 404, "two.test": 203, "three.test": 204} {
		if status, _ := askProduct(t, g, host, "/"); status != want {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
	if status, body := get(t, manage+"/status/ready"); status != 200 || !strings.Contains(body, `"ready"`) {
		t.Error(status, body)
	}
	if status, body := get(t, manage+"/policies/"); status != 200 || !strings.Contains(body, `"Echo"`) {
		t.Error(status, body)
	}
	_, metrics := get(t, "http://"+g.ProductMetrics().String()+"/metrics/")
	for _, part := range []string{
		`apicast_status{status="404"} 2`, `apicast_status{status="201"} 1`, "nginx_metric_errors_total 0", `nginx_http_connections{state="total"}`,
		`total_response_time_seconds_bucket{service_id="2",service_system_name="s2",le="10"} 2`,
	} {
		if !strings.Contains(metrics, part) {
			t.Errorf("%s is not in\n%s", part, metrics)
		}
	}
	stop(t, g)
	access, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil || !strings.Contains(string(access), `] one.test:`) || !strings.Contains(string(access), `"GET / HTTP/1.1" 201 `) || strings.Contains(string(access), "healthz") {
		t.Errorf("%s, %v", access, err)
	}
	errors, err := os.ReadFile(filepath.Join(dir, "error.log"))
	if err != nil || !strings.Contains(string(errors), "environment variables of APIcast without effect: APICAST_CUSTOM_CONFIG") {
		t.Errorf("%s, %v", errors, err)
	}
	if s := out.String(); !strings.Contains(s, "products 2 from "+file+", loader boot") || strings.Contains(s, "admin") || strings.Contains(s, "etcd") {
		t.Error(s)
	}
	if entries, err := os.ReadDir("data"); err == nil {
		t.Error("there is a data folder:", entries)
	}
}

func post(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Post(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body json.RawMessage
	_ = json.NewDecoder(res.Body).Decode(&body)
	return res.StatusCode, string(body)
}

// A request for a host brings its product from the portal.
func TestLazyProducts(t *testing.T) {
	var status atomic.Int64
	status.Store(201)
	var asked atomic.Int64
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Query().Get("host") != "one.test" {
			fmt.Fprint(w, `{"proxy_configs":[]}`)
			return
		}
		fmt.Fprintf(w, `{"proxy_configs":[{"proxy_config":{"content":%s}}]}`, echoing(1, "one.test", int(status.Load())))
	}))
	defer portal.Close()
	o, _ := accountOptions(t, t.TempDir(), "", "THREESCALE_PORTAL_ENDPOINT="+portal.URL, "THREESCALE_DEPLOYMENT_ENV=staging")
	g := start(t, o)
	defer stop(t, g)
	if got, _ := askProduct(t, g, "other.test", "/_threescale/healthz"); got != 200 || asked.Load() != 0 {
		t.Errorf("healthz: %d, %d requests to the portal", got, asked.Load())
	}
	for _, want := range []int64{201, 202} {
		status.Store(want)
		if got, _ := askProduct(t, g, "One.Test:8080", "/"); int64(got) != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	if got, _ := askProduct(t, g, "other.test", "/"); got != 404 {
		t.Error(got)
	}
}

// Both dialects in one process.
func TestProductsAndRoutes(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "")
	o.Example = true
	three, _ := accountOptions(t, t.TempDir(), "data:application/json,"+productsOf(echoing(1, "one.test", 201)))
	o.APIcast = three.APIcast
	g := start(t, o)
	defer stop(t, g)
	if status, _ := askProduct(t, g, "one.test", "/"); status != 201 {
		t.Error(status)
	}
	if status, _ := askProduct(t, g, "one.test", "/hello"); status != 201 {
		t.Error(status)
	}
	if status, _ := get(t, "http://"+g.Data()[0].String()+"/hello", "apikey", exampleKey); status != 200 {
		t.Error(status)
	}
	if status, _ := get(t, "http://"+g.Data()[0].String()+"/hello"); status != 401 {
		t.Error(status)
	}
}

func TestProductsStart(t *testing.T) {
	for name, c := range map[string]struct {
		configuration string
		vars          []string
		want          string
	}{
		"no file":   {configuration: "/nowhere/config.json", want: "/nowhere/config.json: no such file or directory"},
		"no portal": {vars: []string{"THREESCALE_PORTAL_ENDPOINT=http://token@127.0.0.1:1", "APICAST_CONFIGURATION_TIMEOUT=0"}, want: "refused"},
		"no cache":  {configuration: "data:application/json,{}", vars: []string{"APICAST_CONFIGURATION_CACHE=0"}, want: "cache is off"},
		"no key":    {configuration: "data:application/json,{}", vars: []string{"APICAST_HTTPS_PORT=1", "APICAST_HTTPS_CERTIFICATE=/nowhere", "APICAST_HTTPS_CERTIFICATE_KEY=/nowhere"}, want: "APICAST_HTTPS_CERTIFICATE"},
	} {
		o, _ := accountOptions(t, t.TempDir(), c.configuration, c.vars...)
		g, err := Start(t.Context(), o)
		if err == nil {
			stop(t, g)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "token") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestProductsOverTLS(t *testing.T) {
	o, _ := accountOptions(t, t.TempDir(), "data:application/json,"+productsOf(echoing(1, "one.test", 201)))
	ports := freePorts(t, 2)
	o.APIcast.Ports.HTTP, o.APIcast.Ports.HTTPS = ports[0], ports[1]
	g := start(t, o)
	defer stop(t, g)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	r, err := http.NewRequest("GET", "https://"+g.Products()[1].String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "one.test"
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 201 || res.TLS == nil {
		t.Error(res.StatusCode)
	}
}

// The environment development needs nothing else.
func TestDevelopment(t *testing.T) {
	o, out := accountOptions(t, t.TempDir(), "", "THREESCALE_DEPLOYMENT_ENV=development")
	g := start(t, o)
	defer stop(t, g)
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1": 200, "other": 404} {
		if status, _ := askProduct(t, g, host, "/"); status != want {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
	if strings.Contains(out.String(), "mock     http://"+mockAddr) {
		if status, body := get(t, "http://"+mockAddr+"/x"); status != 200 || !strings.HasPrefix(body, "GET /x HTTP/1.1") {
			t.Error(status, body)
		}
	}
}

// HTTP_KEEPALIVE_TIMEOUT 0 ends a connection after its request, as nginx does.
func TestProductsKeepalive(t *testing.T) {
	for timeout, want := range map[string]bool{"": false, "0": true} {
		o, _ := accountOptions(t, t.TempDir(), "data:application/json,"+productsOf(echoing(1, "one.test", 201)), "HTTP_KEEPALIVE_TIMEOUT="+timeout)
		g := start(t, o)
		res, err := http.Get("http://" + g.Products()[0].String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Close != want {
			t.Errorf("HTTP_KEEPALIVE_TIMEOUT=%s: closed is %v", timeout, res.Close)
		}
		stop(t, g)
	}
}

// A broken product is closed, or stays what it was, and others are as they are.
func TestBrokenProducts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "products.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unknown := `{"id":2,"proxy":{"hosts":["two.test"],"policy_chain":[{"name":"my_guard"},{"name":"apicast.policy.echo"}]}}`
	unreadable := `{"id":3,"proxy":{"hosts":["three.test"],"policy_chain":"no list"}}`
	write(productsOf(echoing(1, "one.test", 201), unknown, unreadable))
	o, _ := accountOptions(t, dir, file, "APICAST_MANAGEMENT_API=debug")
	g := start(t, o)
	defer stop(t, g)
	ask := func(want map[string]int) {
		t.Helper()
		for host, status := range want {
			if got, _ := askProduct(t, g, host, "/"); got != status {
				t.Errorf("%s: %d, want %d", host, got, status)
			}
		}
	}
	ask(map[string]int{"one.test": 201, "two.test": 503, "three.test": 503})
	manage := "http://" + g.Management().String()
	if _, body := get(t, manage+"/status/products"); !strings.Contains(body, `"broken":["2","3"]`) || !strings.Contains(body, "my_guard") {
		t.Error(body)
	}
	write(productsOf(echoing(1, "one.test", 201), echoing(2, "two.test", 202), echoing(3, "three.test", 203)))
	if status, body := post(t, manage+"/boot"); status != 200 {
		t.Error(status, body)
	}
	ask(map[string]int{"one.test": 201, "two.test": 202, "three.test": 203})
	write(`{"services":`)
	if status, body := post(t, manage+"/boot"); status != 500 || !strings.Contains(body, "T_END") {
		t.Error(status, body)
	}
	ask(map[string]int{"one.test": 201, "two.test": 202, "three.test": 203})
}
