package app

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A document of the policy standalone is served on its own ports, by its routes.
func TestStandaloneDocument(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	}))
	defer up.Close()
	dir := t.TempDir()
	ports := freePorts(t, 2)
	file := filepath.Join(dir, "standalone.yml")
	write := func(status int) {
		text := fmt.Sprintf(`
global: {log_level: debug}
server:
  listen:
  - {port: %d, name: main}
  - {port: %d, name: secure, tls: {}}
routes:
- match: {uri_path: /t, server_port: main}
  destination: {service: echo}
- match: {server_port: main, http_method: GET}
  destination: {upstream: api}
  routes:
  - match: {uri_path: /cors}
    destination: {service: cors}
- match: {server_port: secure, always: true}
  destination: {service: echo}
internal:
- name: echo
  policy_chain:
  - {policy: apicast.policy.echo, configuration: {status: %d}}
- name: cors
  upstream: %s
  policy_chain:
  - policy: apicast.policy.cors
external:
- {name: api, server: "%s/base"}
`, ports[0], ports[1], status, up.URL, up.URL)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(201)
	o, _ := accountOptions(t, dir, file, "APICAST_ENVIRONMENT=standalone")
	g := start(t, o)
	defer stop(t, g)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ask := func(method, url string) (int, string, http.Header) {
		r, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://o.test")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var b strings.Builder
		buf := make([]byte, 1024)
		n, _ := res.Body.Read(buf)
		b.Write(buf[:n])
		return res.StatusCode, b.String(), res.Header
	}
	main, secure := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("https://127.0.0.1:%d", ports[1])
	upHost := strings.TrimPrefix(up.URL, "http://")
	for _, c := range []struct {
		method, url string
		status      int
		body        string
	}{
		{"GET", main + "/t", 201, "GET /t HTTP/1.1\n"},
		{"GET", main + "/x", 200, upHost + " /base/x"},
		{"GET", main + "/cors", 200, upHost + " /cors"},
		{"POST", main + "/x", 404, "POST /x HTTP/1.1\n"},
		{"GET", secure + "/anything", 201, "GET /anything HTTP/1.1\n"},
	} {
		status, body, header := ask(c.method, c.url)
		if status != c.status || body != c.body {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.url, status, body, c.status, c.body)
		}
		if cors := header.Get("Access-Control-Allow-Origin") != ""; cors != strings.HasSuffix(c.url, "/cors") {
			t.Errorf("%s: CORS is %v", c.url, cors)
		}
	}
	write(202)
	if err := g.account.source.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ask("GET", main+"/t"); status != 202 {
		t.Errorf("reloaded: %d", status)
	}
	log, err := os.ReadFile(filepath.Join(dir, "error.log"))
	if err != nil || !strings.Contains(string(log), "without effect: global.log_level") {
		t.Errorf("%s, %v", log, err)
	}
}
