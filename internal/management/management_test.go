package management

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/source/portal"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// serve runs the API over a source.
func serve(t *testing.T, mode string, cfg portal.Config) *httptest.Server {
	t.Helper()
	src, err := portal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, first := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		ended <- src.Run(ctx, func(model.Delta) error { first <- struct{}{}; return nil })
	}()
	<-first
	s := httptest.NewServer(New(Config{
		Mode: mode, Source: src, Limit: 1 << 20,
		Manifests: func() json.RawMessage { return json.RawMessage(`{"a":[]}`) },
		Names:     func() json.RawMessage { return json.RawMessage(`{"n:1":{}}`) },
		Faults:    func() map[string]string { return map[string]string{"9": "secret", "1": "why"} },
	}))
	t.Cleanup(func() {
		s.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

type call struct {
	request string // method, path and body
	status  int
	body    string
}

func check(t *testing.T, s *httptest.Server, calls []call) {
	t.Helper()
	for _, c := range calls {
		method, rest, _ := strings.Cut(c.request, " ")
		path, body, _ := strings.Cut(rest, " ")
		r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || c.body != "*" && string(got) != c.body {
			t.Errorf("%s: %d %s %v, want %d %s", c.request, res.StatusCode, got, err, c.status, c.body)
		}
		if kind := res.Header.Get("Content-Type"); c.status < 400 && kind != "application/json; charset=utf-8" {
			t.Errorf("%s: %s", c.request, kind)
		}
	}
}

func TestModes(t *testing.T) {
	idle := portal.Config{Idle: true}
	check(t, serve(t, Disabled, idle), []call{
		{"GET /", 403, "Forbidden\n"},
		{"GET /status/live", 404, "Could not resolve GET /status/live - nil\n"},
	})
	check(t, serve(t, Policies, idle), []call{
		{"GET /policies/", 200, `{"policies":{"a":[]}}` + "\n"},
		{"GET /policies", 200, "*"},
		{"GET /status/info", 404, "*"},
	})
	check(t, serve(t, Status, idle), []call{
		{"GET /status/live", 200, `{"status":"live","success":true}` + "\n"},
		{"GET //status//live/", 200, "*"},
		{"GET /status/ready", 412, `{"status":"error","error":"not configured","success":false}` + "\n"},
		{"GET /status/info", 200, "*"},
		{"GET /policies/", 200, "*"},
		{"POST /status/live", 404, "Could not resolve POST /status/live - nil\n"},
		{"GET /config", 404, "*"}, {"POST /boot", 404, "*"}, {"PUT /config {}", 404, "*"}, {"GET /dns/cache", 404, "*"},
	})
	check(t, serve(t, Debug, idle), []call{
		{"GET /status/live", 200, "*"}, {"GET /policies/", 200, "*"}, {"GET /dns/cache", 200, `{"n:1":{}}` + "\n"}, {"GET /", 404, "*"},
	})
}

func TestConfiguration(t *testing.T) {
	s := serve(t, Debug, portal.Config{Configuration: `data:application/json,{"services":[{"id":1}]}`, TTL: time.Hour})
	check(t, s, []call{
		{"GET /status/ready", 200, `{"status":"ready","success":true}` + "\n"},
		{"GET /config", 200, `{"services":[{"id":1}]}` + "\n"},
		{"DELETE /config", 200, `{"status":"ok","config":null}` + "\n"},
		{"GET /config", 200, "null\n"},
		{"GET /status/ready", 412, "*"},
		{`PUT /config {"services":[{"id":42}]}`, 200, `{"status":"ok","config":{"services":[{"id":42}]},"services":1}` + "\n"},
		{"GET /config", 200, `{"services":[{"id":42}]}` + "\n"},
		{`POST /config {"services":[{"id":43},{"id":43}]}`, 200, `{"status":"ok","config":{"services":[{"id":43},{"id":43}]},"services":1}` + "\n"},
		{"POST /config invalid json", 400, `{"status":"error","config":null,"error":"Expected value but found invalid token at character 1"}` + "\n"},
		{"POST /config", 400, "*"},
		{"POST /config null", 400, `{"status":"error","config":null}` + "\n"},
		{`POST /config {"id":42}`, 406, `{"status":"not_configured","config":{"id":42},"services":0}` + "\n"},
		{`POST /config {"services":7}`, 406, "*"},
		{`POST /config 7`, 406, "*"},
		{"GET /config", 200, `{"services":[{"id":43}]}` + "\n"},
		{"PUT /config " + strings.Repeat(" ", 1<<20+1), 413, `{"status":"error","error":"a configuration may have 1048576 bytes (WEIR_PRODUCTS_LIMIT)"}` + "\n"},
		{"PUT /status/live " + strings.Repeat(" ", 1<<20+1), 404, "*"},
		{"PUT /config {\"services\":[{\"id\":44,\"x\":\"\n\"}]}", 200, `{"status":"ok","config":{"services":[{"id":44,"x":"\u000a"}]},"services":1}` + "\n"},
		{"POST /boot", 200, `{"status":"ok","config":{"services":[{"id":1}],"oidc":[{"service_id":"1"}]}}` + "\n"},
		{"GET /config", 200, `{"services":[{"id":1}]}` + "\n"},
	})
}

// What cannot be read of a configuration that is sent disables nothing else, and
// what is there of it stays.
func TestConfigurationUnread(t *testing.T) {
	s := serve(t, Debug, portal.Config{Configuration: `data:application/json,{"services":[{"id":1},{"id":2}]}`, TTL: time.Hour})
	check(t, s, []call{
		{"GET /config", 200, `{"services":[{"id":1},{"id":2}]}` + "\n"},
		{`PUT /config {"services":[null,{"id":2,"x":1}]}`, 200, `{"status":"ok","config":{"services":[null,{"id":2,"x":1}]},"services":1}` + "\n"},
		{"GET /config", 200, `{"services":[{"id":1},{"id":2,"x":1}]}` + "\n"},
		{`PUT /config {"services":[null,7]}`, 406, `{"status":"not_configured","config":{"services":[null,7]},"services":0,"error":"services[0]: an object is expected, not null"}` + "\n"},
		{"GET /config", 200, `{"services":[{"id":1},{"id":2,"x":1}]}` + "\n"},
		{`PUT /config {"services":[{"id":2,"x":1}]}`, 200, "*"},
		{"GET /config", 200, `{"services":[{"id":2,"x":1}]}` + "\n"},
	})
}

func TestLazyIsReady(t *testing.T) {
	check(t, serve(t, Status, portal.Config{Lazy: true}), []call{
		{"GET /status/ready", 200, `{"status":"warning","warning":"no services","success":true}` + "\n"},
	})
	check(t, serve(t, Debug, portal.Config{Lazy: true}), []call{
		{"GET /config", 200, `{"services":[]}` + "\n"},
		{"POST /boot", 500, `{"status":"error","error":"missing configuration: no portal is configured"}` + "\n"},
	})
}

func TestProducts(t *testing.T) {
	check(t, serve(t, Status, portal.Config{Idle: true}), []call{
		{"GET /status/products", 200, `{"products":0,"broken":["1","9"],"source":{"loads":0,"failing":false,"revision":1}}` + "\n"},
	})
	check(t, serve(t, Debug, portal.Config{Idle: true}), []call{
		{"POST /boot", 500, "*"},
		{"GET /status/products", 200, `{"products":0,"broken":["1","9"],"faults":{"1":"why","9":"secret"},"source":{"loads":0,"failing":true,"problem":"missing configuration: no portal is configured","revision":1,"traffic":{"requests":0,"not_modified":0,"bytes":0}}}` + "\n"},
	})
}

func TestManifests(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"mine/1.0/apicast-policy.json":  `{"name":"Mine","version":"1.0"}`,
		"mine/2.0/apicast-policy.json":  `{"name":"Mine","version":"1.9"}`,
		"other/1.0/apicast-policy.json": `no JSON`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type conf struct {
		A int `json:"a" doc:"A number."`
	}
	define := func(name string, before ...string) plugin.Spec {
		return plugin.Define(plugin.Meta{Name: name, Doc: "Does it.", Before: before},
			func(*conf, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil })
	}
	raw, err := Manifests([]plugin.Spec{define("cors", "apicast"), define("find_service")}, []string{dir, filepath.Join(dir, "nowhere")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(all["mine"]) != 1 || all["mine"][0]["version"] != "1.0" {
		t.Errorf("%s", raw)
	}
	cors, err := json.Marshal(all["cors"])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"name":"CORS Request Handling"`, `"version":"builtin"`, `"order":{"before":[{"name":"apicast","version":"builtin"}]}`,
		`"$schema":"http://apicast.io/policy-v1.1/schema"`, `"summary":"Does it."`, `"properties":{"a":{`,
	} {
		if !strings.Contains(string(cors), part) {
			t.Errorf("%s is not in %s", part, cors)
		}
	}
	if strings.Contains(string(cors), "_meta") || strings.Contains(string(cors), "comment") {
		t.Errorf("%s", cors)
	}
}
