package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/control"
)

// origin is an upstream that says hello.
func origin(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

func TestFromFile(t *testing.T) {
	for provider, text := range map[string]string{
		"yaml": "routes:\n- uri: %s\n  upstream: {nodes: {\"%s\": 1}}\n- uri: /bad\n  plugins: {nothing: {}}\n#END\n",
		"json": `{"routes":[{"uri":%q,"upstream":{"nodes":{%q:1}}},{"uri":"/bad","plugins":{"nothing":{}}}]}`,
	} {
		t.Run(provider, func(t *testing.T) {
			t.Setenv("APISIX_PROFILE", "dev")
			dir, up := t.TempDir(), origin(t)
			write := func(uri string) {
				if err := os.WriteFile(filepath.Join(dir, "apisix-dev."+provider), fmt.Appendf(nil, text, uri, up), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o, out := options(t, dir, "deployment: {role: data_plane, role_data_plane: {config_provider: "+provider+"}}\nplugins: [key-auth]")
			o.Config.File = filepath.Join(dir, "config-dev.yaml")
			write("/a")
			g := start(t, o)
			defer stop(t, g)
			url := "http://" + g.Data()[0].String()
			if status, body := get(t, url+"/a"); status != 200 || body != "hello" {
				t.Errorf("%d %s", status, body)
			}
			if g.Admin() != nil {
				t.Error("there is an Admin API")
			}
			write("/b")
			until(t, "the new route", func() bool { status, _ := get(t, url+"/b"); return status == 200 })
			if status, _ := get(t, url+"/a"); status != 404 {
				t.Error("the old route is still there:", status)
			}
			if status, _ := get(t, url+"/bad"); status != 503 {
				t.Error("a route with an unknown plugin:", status)
			}
			if want := "file     " + filepath.Join(dir, "apisix-dev."+provider) + ", watched"; !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q", out, want)
			}
			_, body := get(t, "http://"+g.Control().String()+"/v1/revision")
			var r control.Revision
			if err := json.Unmarshal([]byte(body), &r); err != nil || r.Applied != 2 || r.Lag != 0 || !r.Connected || r.Objects["routes"] != 2 {
				t.Errorf("%s %v", body, err)
			}
		})
	}
}

// A gateway does not serve before it has its configuration.
func TestWaitsForFile(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, dir, "deployment: {role_traditional: {config_provider: yaml}}")
	o.Config.APISIX.EnableAdmin = false
	o.Config.File = filepath.Join(dir, "config.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, o); err == nil || strings.Contains(out.String(), "ready") {
		t.Error(err, out)
	}
}

func TestPushed(t *testing.T) {
	dir, up := t.TempDir(), origin(t)
	config := `deployment: {role_traditional: {config_provider: yaml}, admin: {admin_listen: {port: 0}, admin_key: [{name: admin, key: secret, role: admin}]}}`
	o, out := options(t, dir, config)
	g := start(t, o)
	push := func(digest, uri string) int {
		body := fmt.Sprintf(`{"routes":[{"id":"r","uri":%q,"upstream":{"nodes":{%q:1}}}]}`, uri, up)
		req, err := http.NewRequest("PUT", g.adminURL()+"/configs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", "secret")
		req.Header.Set("X-Digest", digest)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	ready := func() int { status, _ := get(t, "http://"+g.Status().String()+"/status/ready"); return status }
	if status := ready(); status != 503 {
		t.Error("ready before the first push:", status)
	}
	for i := range 20 {
		uri := fmt.Sprintf("/%d", i)
		if status := push(uri, uri); status != 202 {
			t.Fatal(status)
		}
		if status, body := get(t, "http://"+g.Data()[0].String()+uri); status != 200 || body != "hello" {
			t.Fatalf("%s after the answer: %d %s", uri, status, body)
		}
	}
	if status := ready(); status != 200 {
		t.Error("not ready:", status)
	}
	if status := push("/19", "/"); status != 204 {
		t.Error(status)
	}
	if status, _ := get(t, g.adminURL()+"/routes", "X-API-KEY", "secret"); status != 404 {
		t.Error("there are routes:", status)
	}
	if !strings.Contains(out.String(), "configs  pushed through the Admin API, kept in "+filepath.Join(dir, "data")) {
		t.Error(out)
	}
	stop(t, g)

	o, _ = options(t, dir, config)
	g = start(t, o)
	defer stop(t, g)
	if status, _ := get(t, "http://"+g.Data()[0].String()+"/19"); status != 200 {
		t.Error("after another start:", status)
	}
	if _, body := get(t, g.adminURL()+"/configs", "X-API-KEY", "secret"); !strings.Contains(body, `"X-Digest":"/19"`) {
		t.Error(body)
	}
}

func TestRoles(t *testing.T) {
	for role, want := range map[string]struct{ admin, data bool }{
		"traditional":   {true, true},
		"control_plane": {true, false},
		"data_plane":    {false, true},
	} {
		t.Run(role, func(t *testing.T) {
			o, out := options(t, t.TempDir(), "deployment: {role: "+role+", admin: {admin_listen: {port: 0}}}")
			g := start(t, o)
			defer stop(t, g)
			if (g.Admin() != nil) != want.admin || (len(g.Data()) > 0) != want.data || strings.Contains(out.String(), "proxy") != want.data {
				t.Errorf("Admin API %v, data plane %v\n%s", g.Admin(), g.Data(), out)
			}
		})
	}
}
