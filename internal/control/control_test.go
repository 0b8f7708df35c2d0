package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/snapshot"
)

func TestHandlers(t *testing.T) {
	var ready error = errors.New("the configuration is not loaded")
	c := Config{
		Revision: func() Revision {
			return Revision{
				Applied: 5, Store: 7, Lag: 2, Connected: true, Deltas: 3, Applying: 0.5,
				Objects: map[string]int{"routes": 1}, Compiled: map[string]int64{"routes": 4},
			}
		},
		Ready: func() error { return ready },
		More: map[string]http.Handler{"GET /v1/more": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		})},
	}
	api, status := API(c), Status(c)
	for _, tc := range []struct {
		handler      http.Handler
		method, path string
		code         int
		body         string
	}{
		{api, "GET", "/v1/revision", 200, `{"applied":5,"store":7,"lag":2,"connected":true,"objects":{"routes":1},"compiled":{"routes":4},"deltas":3,"apply_seconds":0.5}`},
		{api, "GET", "/v1/more", 204, ""},
		{api, "GET", "/v1/none", 404, `{"error_msg":"404 Not Found"}`},
		{api, "PUT", "/v1/revision", 404, `{"error_msg":"404 Not Found"}`},
		{status, "GET", "/status", 200, `{"status":"ok"}`},
		{status, "GET", "/status/ready", 503, `{"status":"error","error":"the configuration is not loaded"}`},
		{status, "GET", "/v1/revision", 404, "404 page not found"},
	} {
		check(t, tc.handler, tc.method, tc.path, tc.code, tc.body)
	}
	ready = nil
	check(t, status, "GET", "/status/ready", 200, `{"status":"ok"}`)
}

func TestProcess(t *testing.T) {
	w := httptest.NewRecorder()
	API(Config{}).ServeHTTP(w, httptest.NewRequest("GET", "/v1/process", nil))
	var p Process
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Goroutines == 0 || p.Heap == 0 || p.Memory < p.Heap {
		t.Errorf("%+v, %v", p, err)
	}
}

func check(t *testing.T, h http.Handler, method, path string, code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	if body != "" {
		body += "\n"
	}
	if w.Code != code || w.Body.String() != body {
		t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

// TestControlsOfPlugins: what a plugin adds is there while the plugin is enabled.
func TestControlsOfPlugins(t *testing.T) {
	told := func(query string) *plugin.Reply { return plugin.Text(201, "told "+query+"\n", [2]string{"X-A", "b"}) }
	spec := plugin.Define(plugin.Meta{Name: "teller"}, func(*struct{}, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
		plugin.Controls(plugin.Control{Method: "GET", Path: "/v1/plugin/teller", Answer: told}))
	a := snapshot.New(snapshot.Config{Plugins: []plugin.Spec{spec}})
	defer a.Close()
	api := API(Config{Snapshot: a.Current})
	check(t, api, "GET", "/v1/plugin/teller?a=b", 201, "told a=b")
	check(t, api, "PUT", "/v1/plugin/teller", 404, `{"error_msg":"404 Not Found"}`)
	a.Enable(snapshot.Selection{Names: []string{}})
	check(t, api, "GET", "/v1/plugin/teller", 404, `{"error_msg":"404 Not Found"}`)
}

func TestMetadataIsListedByPriority(t *testing.T) {
	spec := func(name string, priority int) plugin.Spec {
		return plugin.Define(plugin.Meta{Name: name, Priority: priority},
			func(*struct{}, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil }, plugin.Metadata[struct{}]())
	}
	a := snapshot.New(snapshot.Config{Plugins: []plugin.Spec{spec("low", 1), spec("off", 9), spec("top", 5)}})
	defer a.Close()
	a.Enable(snapshot.Selection{Names: []string{"low", "top"}})
	put := model.Delta{Revision: 1}
	for _, id := range []string{"low", "off", "top"} {
		put.Put = append(put.Put, model.Object{Key: model.Key{Kind: model.KindPluginMetadata, ID: id}, Raw: []byte(`{}`)})
	}
	a.Apply(put)
	check(t, API(Config{Snapshot: a.Current}), "GET", "/v1/plugin_metadatas", 200, `[{"id":"top"},{"id":"low"},{"id":"off"}]`)
}

// A list whose client is gone is not made up to its end.
func TestListEndsWithItsClient(t *testing.T) {
	a := snapshot.New(snapshot.Config{})
	defer a.Close()
	put := model.Delta{Revision: 1}
	for i := range 1000 {
		put.Put = append(put.Put, model.Object{Key: model.Key{Kind: model.KindService, ID: strconv.Itoa(i)}, Raw: []byte(`{}`)})
	}
	a.Apply(put)
	api := API(Config{Snapshot: a.Current, Documents: apisix.New(apisix.Options{})})
	gone, leave := context.WithCancel(t.Context())
	w := &leaver{ResponseRecorder: httptest.NewRecorder(), leave: leave}
	api.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "/v1/services", nil))
	if n := bytes.Count(w.Body.Bytes(), []byte(`"key"`)); n == 0 || n > 500 {
		t.Errorf("%d of 1000 objects were told of", n)
	}
}

// A leaver is a client that leaves at the first part of an answer.
type leaver struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaver) Write(p []byte) (int, error) {
	l.leave()
	return l.ResponseRecorder.Write(p)
}
