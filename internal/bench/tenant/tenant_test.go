package tenant

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func ask(t *testing.T, h http.Handler, r *http.Request) (int, string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body), w.Header()
}

func get(t *testing.T, p *Portal, target, tag string) (int, string, http.Header) {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	r.SetBasicAuth(PortalToken, "")
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	return ask(t, p, r)
}

type listed struct {
	ProxyConfigs []struct {
		ProxyConfig struct {
			Version int
			Content struct {
				ID    int
				Proxy struct {
					APIBackend string `json:"api_backend"`
					Hosts      []string
					Backend    struct{ Endpoint string }
					Chain      []Policy `json:"policy_chain"`
				}
			}
		} `json:"proxy_config"`
	} `json:"proxy_configs"`
}

func list(t *testing.T, p *Portal, target string) listed {
	t.Helper()
	status, body, _ := get(t, p, target, "")
	var l listed
	if err := json.Unmarshal([]byte(body), &l); status != 200 || err != nil {
		t.Fatalf("%s: %d %.200s: %v", target, status, body, err)
	}
	return l
}

const pageOf = "/admin/api/account/proxy_configs/production.json?version=latest&per_page=500&page="

func account(products int) (*Catalog, *Portal) {
	c := NewCatalog(Config{Products: products, Upstream: "http://127.0.0.1:9", Backend: "http://127.0.0.1:8"})
	return c, NewPortal(c)
}

func TestPages(t *testing.T) {
	for _, tc := range []struct {
		products int
		pages    []int
	}{{3, []int{3, 0}}, {500, []int{500, 0, 0}}, {600, []int{500, 100, 0}}, {1000, []int{500, 500, 0}}} {
		_, p := account(tc.products)
		id := firstID
		for n, want := range tc.pages {
			l := list(t, p, pageOf+string(rune('1'+n)))
			if len(l.ProxyConfigs) != want {
				t.Errorf("%d products, page %d: %d, want %d", tc.products, n+1, len(l.ProxyConfigs), want)
			}
			for _, c := range l.ProxyConfigs {
				if c.ProxyConfig.Content.ID != id {
					t.Fatalf("id %d, want %d", c.ProxyConfig.Content.ID, id)
				}
				id++
			}
		}
	}
}

func TestDocument(t *testing.T) {
	c := NewCatalog(Config{Products: 2, Upstream: "http://127.0.0.1:9", Backend: "http://127.0.0.1:8", Batcher: true})
	l := list(t, NewPortal(c), pageOf+"1")
	content := l.ProxyConfigs[1].ProxyConfig.Content
	if content.Proxy.APIBackend != "http://127.0.0.1:9" || content.Proxy.Backend.Endpoint != "http://127.0.0.1:8" || content.Proxy.Hosts[0] != c.Host(1) {
		t.Errorf("%+v", content)
	}
	var names []string
	for _, p := range content.Proxy.Chain {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "headers headers headers logging headers headers 3scale_batcher apicast" {
		t.Error(got)
	}
	if len(Chain()) != 7 {
		t.Errorf("%d policies", len(Chain()))
	}
}

func TestWholeDocument(t *testing.T) {
	c := NewCatalog(Config{Products: 2, Upstream: "http://127.0.0.1:9", Backend: "http://127.0.0.1:8", Hostname: "x.test", KeyHeader: "apikey"})
	var doc struct {
		Services []struct {
			ID    int
			Proxy struct {
				Hosts    []string
				Location string `json:"credentials_location"`
				Key      string `json:"auth_user_key"`
			}
		}
	}
	if err := json.Unmarshal(c.Document(), &doc); err != nil || len(doc.Services) != 2 {
		t.Fatalf("%v, %d services", err, len(doc.Services))
	}
	for i, host := range []string{"x.test", "product-1.bench.test"} {
		if s := doc.Services[i]; s.ID != firstID+i || s.Proxy.Hosts[0] != host || s.Proxy.Location != "headers" || s.Proxy.Key != "apikey" || c.numberOf("", host) != i {
			t.Errorf("%+v", s)
		}
	}
}

// TestChange: only what changed has a new version, and only its page another tag.
func TestChange(t *testing.T) {
	c, p := account(600)
	_, _, first := get(t, p, pageOf+"1", "")
	_, _, second := get(t, p, pageOf+"2", "")
	if status, body, _ := get(t, p, pageOf+"1", first.Get("ETag")); status != 304 || body != "" {
		t.Errorf("unchanged: %d %.50q", status, body)
	}
	c.Change(2)
	if status, _, _ := get(t, p, pageOf+"1", first.Get("ETag")); status != 200 {
		t.Errorf("changed: %d", status)
	}
	if status, _, _ := get(t, p, pageOf+"2", second.Get("ETag")); status != 304 {
		t.Errorf("page without change: %d", status)
	}
	c.Change(599)
	versions := c.Versions()
	if versions[0] != 2 || versions[1] != 1 || versions[2] != 2 || versions[599] != 2 {
		t.Errorf("versions %v %v %v, last %v", versions[0], versions[1], versions[2], versions[599])
	}
	for i, e := range list(t, p, pageOf+"1").ProxyConfigs {
		text, err := json.Marshal(e.ProxyConfig.Content.Proxy.Chain[0].Configuration)
		want := `"value":"` + string(rune('0'+versions[i])) + `"`
		if e.ProxyConfig.Version != versions[i]+1 || err != nil || !bytes.Contains(text, []byte(want)) {
			t.Fatalf("product %d: version %d, %s, want %s", i, e.ProxyConfig.Version, text, want)
		}
	}
}

func TestOtherForms(t *testing.T) {
	c, p := account(600)
	l := list(t, p, "/admin/api/account/proxy_configs/staging.json?version=latest&host="+c.Host(7))
	if len(l.ProxyConfigs) != 1 || l.ProxyConfigs[0].ProxyConfig.Content.Proxy.Hosts[0] != c.Host(7) {
		t.Errorf("%+v", l)
	}
	if l = list(t, p, "/admin/api/account/proxy_configs/staging.json?version=latest&host=other.test"); len(l.ProxyConfigs) != 0 {
		t.Errorf("%+v", l)
	}
	for _, tc := range []struct {
		path, holds string
		status      int
	}{
		{"/admin/api/services.json?page=2&per_page=500", `{"service":{"id":100500,"system_name":"product_500"}}`, 200},
		{"/admin/api/services.json?page=3&per_page=500", `{"services":[]}`, 200},
		{"/admin/api/services/100007/proxy/configs/production/latest.json", c.Host(7), 200},
		{"/admin/api/services/100007/proxy/configs/production/1.json", c.Host(7), 200},
		{"/admin/api/services/100007/proxy/configs/production/2.json", "", 404},
		{"/admin/api/services/100600/proxy/configs/production/latest.json", "", 404},
		{"/admin/api/services/x/proxy/configs/production/latest.json", "", 404},
		{"/admin/api/services/100007/proxy/configs/moon/latest.json", "", 404},
		{"/admin/api/account/proxy_configs/moon.json?version=latest", "", 404},
		{"/admin/api/account/proxy_configs/production.json?version=latest&per_page=7", "pages of 500", 422},
		{"/admin/api/nginx/spec.json", "", 404},
	} {
		if status, body, _ := get(t, p, tc.path, ""); status != tc.status || !strings.Contains(body, tc.holds) {
			t.Errorf("%s: %d %.200s", tc.path, status, body)
		}
	}
	if status, _, _ := ask(t, p, httptest.NewRequest("GET", pageOf+"1", nil)); status != 403 {
		t.Errorf("without a token: %d", status)
	}
}

func TestRefreshes(t *testing.T) {
	c, p := account(600)
	var told []Refresh
	p.OnRefresh(func(r Refresh) { told = append(told, r) })
	_, one, tags := get(t, p, pageOf+"1", "")
	if p.Shown() != nil {
		t.Error("shown before the last page")
	}
	_, two, _ := get(t, p, pageOf+"2", "")
	c.Change(1)
	if shown := p.Shown(); len(shown) != 600 || shown[0] != 0 {
		t.Errorf("shown %v", shown)
	}
	get(t, p, pageOf+"1", tags.Get("ETag"))
	p.Refuse(true)
	if status, _, _ := get(t, p, pageOf+"2", ""); status != 503 {
		t.Errorf("refusing: %d", status)
	}
	p.Refuse(false)
	_, _, tags = get(t, p, pageOf+"1", "")
	get(t, p, pageOf+"2", "")
	get(t, p, pageOf+"1", tags.Get("ETag"))
	all, refusals := p.Refreshes()
	if len(all) != 4 || len(told) != 2 || refusals != 1 || all[1].Complete || p.Shown()[0] != 1 {
		t.Fatalf("%d refreshes, %d told, %d refusals, complete %v", len(all), len(told), refusals, all[1].Complete)
	}
	if r := all[0]; !r.Complete || r.Requests != 2 || r.NotModified != 0 || r.Bytes != int64(len(one)+len(two)) {
		t.Errorf("%d requests, %d bytes", r.Requests, r.Bytes)
	}
	if r := all[3]; r.Requests != 1 || r.NotModified != 1 || r.Bytes != 0 {
		t.Errorf("%d requests, %d not modified, %d bytes", r.Requests, r.NotModified, r.Bytes)
	}
}

func TestBackend(t *testing.T) {
	c, _ := account(3)
	b := NewBackend(c)
	call := func(method, path string, form url.Values, header string) (int, string, http.Header) {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("3scale-options", header)
		return ask(t, b, r)
	}
	const options = "rejection_reason_header=1&limit_headers=1&no_body=1"
	product := "?service_id=100001&service_token=bench-token-1"
	for _, tc := range []struct {
		path, options string
		status        int
		body, reason  string
	}{
		{"/transactions/authrep.xml" + product + "&usage%5Bhits%5D=1&user_key=bench-key-1", options, 200, "", ""},
		{"/transactions/oauth_authrep.xml" + product + "&usage%5Bhits%5D=2&user_key=bench-key-1", "", 200, authorized, ""},
		{"/transactions/authorize.xml" + product + "&usage%5Bhits%5D=1&user_key=bench-key-1", options, 200, "", ""},
		{"/transactions/authrep.xml" + product + "&usage%5Bhits%5D=1&user_key=bench-key-2", options, 403, "", "user_key_invalid"},
		{"/transactions/authrep.xml?service_id=100001&service_token=bench-token-2&user_key=bench-key-1", options, 403, "service_token_invalid", ""},
		{"/transactions/authrep.xml?service_id=7&service_token=bench-token-2&user_key=bench-key-1", options, 403, "service_token_invalid", ""},
		{"/other", options, 404, "404", ""},
	} {
		status, body, header := call("GET", tc.path, nil, tc.options)
		if status != tc.status || !strings.Contains(body, tc.body) || tc.body == "" && body != "" || header.Get("3scale-rejection-reason") != tc.reason {
			t.Errorf("%s: %d %q %v", tc.path, status, body, header)
		}
	}
	form := url.Values{"transactions[0][usage][hits]": {"3"}, "transactions[1][usage][hits]": {"4"}, "transactions[1][usage][orders]": {"5"}}
	if status, _, _ := call("POST", "/transactions.xml"+product, form, ""); status != 202 {
		t.Errorf("report: %d", status)
	}
	if got := b.Calls(); got != (Calls{AuthRep: 5, Authorize: 1, Report: 1, Denied: 3, Hits: 10}) {
		t.Errorf("%+v", got)
	}
}
