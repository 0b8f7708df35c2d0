package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

// FuzzAPI: whatever is asked, and whatever the objects are, an answer is JSON or one of
// the few texts, and no private key is in it.
func FuzzAPI(f *testing.F) {
	for _, s := range [][3]string{
		{"GET", "/v1/routes", `{"uri":"/a","upstream":{"nodes":{"a":1},"tls":{"client_cert":"c","client_key":"private"}}}`},
		{"GET", "/v1/route/1", `{"uri":"/a","plugins":{"p":{}},"upstream":[]}`}, {"GET", "/v1/healthcheck/routes/1", `{"upstream":{"checks":{}}}`},
		{"GET", "/v1/plugin_metadata/p", `[]`}, {"GET", "/v1/schema", `null`}, {"PUT", "/v1/plugins/reload", `{"upstream":null}`}, {"GET", "/v1/upstream/1/../x", `{"uri":"/\u0000"}`},
		{"GET", "/v1/healthcheck", ``}, {"GET", "/v1/status", `{"plugins":{"none":{}}}`}, {"GET", "/v1/services", `7`}, {"GET", "/v1/server_info", `{}`},
	} {
		f.Add(s[0], s[1], s[2])
	}
	spec := plugin.Define(plugin.Meta{Name: "p"}, func(*struct{}, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil }, plugin.Metadata[struct{}]())
	documents, pools := apisix.New(apisix.Options{}), upstream.NewPools()
	f.Fuzz(func(t *testing.T, method, path, doc string) {
		r, err := http.NewRequest(method, "http://localhost:9090/", nil)
		if err != nil {
			return
		}
		if r.URL, err = url.ParseRequestURI(path); err != nil || path == "/v1/gc" {
			return
		}
		a := snapshot.New(snapshot.Config{Plugins: []plugin.Spec{spec}, Upstream: upstream.Env{Pools: pools}})
		defer a.Close()
		put := model.Delta{Revision: 1}
		for _, k := range []model.Kind{model.KindRoute, model.KindService, model.KindUpstream} {
			put.Put = append(put.Put, model.Object{Key: model.Key{Kind: k, ID: "1"}, Raw: []byte(doc)})
		}
		put.Put = append(put.Put, model.Object{Key: model.Key{Kind: model.KindPluginMetadata, ID: "p"}, Raw: []byte(doc)})
		if json.Valid([]byte(doc)) && !strings.Contains(doc, "active") { // the store has JSON only; nobody is to be probed
			a.Apply(put)
		}
		api := API(Config{
			Snapshot: a.Current, Documents: documents, KeyPrefix: "/apisix", Revision: func() Revision { return Revision{} }, Ready: func() error { return nil }, Source: func() Source { return Source{} },
			Server: func(context.Context) Server { return Server{} }, Reload: func(context.Context) error { return nil },
		})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s of %s: %s", method, path, doc, w.Body)
		}
		if strings.Contains(w.Body.String(), `"client_key"`) && !strings.Contains(path, "schema") && strings.Contains(doc, `"client_key":"private"`) {
			t.Errorf("%s %s of %s: %s", method, path, doc, w.Body)
		}
	})
}
