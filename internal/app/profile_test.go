package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/document"
	"weir/internal/plugins"
	"weir/internal/policies"
	"weir/internal/profile"
)

func askControl(t *testing.T, g *Gateway, method, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+g.Control().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
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

func TestProfiles(t *testing.T) {
	o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}")
	g := start(t, o)
	defer stop(t, g)
	for _, kind := range []string{"cpu", "alloc", "mutex", "block"} {
		status, body := askControl(t, g, "POST", "/v1/profile?seconds=0.2&type="+kind)
		var c profile.Capture
		if err := json.Unmarshal([]byte(body), &c); err != nil || status != 200 {
			t.Fatalf("%s: %d %.200s", kind, status, body)
		}
		if c.Type != kind || len(c.Windows) != windows || c.Cores < 1 || c.Whole().Length <= 0 {
			t.Errorf("%s: %+v", kind, c.Windows)
		}
		if a, err := profile.Read(bytes.NewReader(c.Profile), kind, PluginNames()); err != nil || a.Total < 0 {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/v1/profile?type=heap", 400, "cpu, alloc, mutex or block"},
		{"POST", "/v1/profile?seconds=x", 400, "between 0.1 and 300"},
		{"POST", "/v1/profile?seconds=1e9", 400, "between 0.1 and 300"},
		{"GET", "/v1/profile", 404, "404 Not Found"},
		{"GET", "/v1/calls?seconds=0.1", 200, `"requests":0`},
		{"GET", "/v1/calls?seconds=0.1&uri=/a*", 404, "no such request came"},
		{"GET", "/v1/calls?header=x", 400, "Name: value"},
	} {
		if status, body := askControl(t, g, c.method, c.path); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
}

func TestPluginNames(t *testing.T) {
	names := PluginNames()
	if all := len(plugins.All()) + len(policies.All()); len(names) != all {
		t.Errorf("%d plugins and policies in %d packages: a profile could not tell some apart", all, len(names))
	}
	for pkg, name := range map[string]string{"weir/internal/plugins/keyauth": "key-auth", "weir/internal/policies/statuscodeoverwrite": "statuscode_overwrite"} {
		if names[pkg] != name {
			t.Errorf("%s: %q", pkg, names[pkg])
		}
	}
}

// A configuration that a report would show holds no secret, whoever says so.
func TestHasSecrets(t *testing.T) {
	for conf, want := range map[string]bool{
		`{"headers":{"set":{"X-A":"b"}}}`:                  false,
		`{"headers":{"set":{"Authorization":"Bearer x"}}}`: true,
		`{"headers":["Cookie: a=b"]}`:                      true,
		`{"uri":"http://u:p@host/"}`:                       true,
	} {
		v, err := document.Parse([]byte(conf))
		if err != nil {
			t.Fatal(err)
		}
		if got := HasSecrets("proxy-rewrite", v); got != want {
			t.Error(conf, got)
		}
		if v.String() != conf {
			t.Error("changed", conf, v)
		}
	}
}
