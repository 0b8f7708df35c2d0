package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"weir/internal/model"
)

// FuzzRequest: whatever is asked, by whoever, no answer is a failure of the server's,
// a body that calls itself JSON is JSON, what is stored afterwards passes the checks,
// and nobody without the administrator's key has changed anything.
func FuzzRequest(f *testing.F) {
	for _, s := range [][4]string{
		{"PUT", "/apisix/admin/routes/r", "", `{"uri":"/a","upstream":{"nodes":{"a:80":1}}}`},
		{"GET", "/apisix/admin/routes", "page=1&page_size=10&name=a&filter=uri%3D%2Fa&label=x", ""},
		{"POST", "/apisix/admin/routes", "ttl=-1", `{"uri":["/a"],"plugins":{"key-auth":{}}}`},
		{"PUT", "/apisix/admin/consumers/jack/credentials/c", "", `{"plugins":{"key-auth":{"key":"k"}}}`},
		{"PATCH", "/apisix/admin/ssls/a/snis", "force=true", `[]`}, {"DELETE", "/apisix/admin/upstreams/u", "force=1", ""},
		{"GET", "/apisix/admin/schema/plugins/key-auth", "schema_type=consumer", ""}, {"GET", "/apisix/admin/plugins/list", "subsystem=stream&all=x", ""},
		{"OPTIONS", "/apisix/admin/%2e%2e/routes", "", ""}, {"POST", "/apisix/admin/schema/validate/routes", "", `{"uri":1}`}, {"PUT", "/apisix/admin/plugins/reload", "", ""},
	} {
		f.Add(s[0], s[1], s[2], s[3], adminKey)
	}
	f.Add("PUT", "/apisix/admin/routes/r", "api_key="+adminKey, `{"uri":"/a"}`, viewerKey)
	b := newBench(f, nil)
	f.Fuzz(func(t *testing.T, method, path, query, body, key string) {
		r, err := http.NewRequest(method, "http://localhost:9180/", strings.NewReader(body))
		if err != nil {
			return
		}
		if r.URL, err = url.ParseRequestURI(path); err != nil {
			return
		}
		r.URL.RawQuery, r.RemoteAddr = query, "127.0.0.1:1"
		r.Header.Set("X-API-KEY", key)
		b.store.kvs, b.changes = nil, nil
		b.send("PUT", "/apisix/admin/routes/r", `{"uri":"/a","upstream":{"nodes":{"a:80":1}}}`)
		before := len(b.changes)
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusNotImplemented {
			t.Errorf("%s %s?%s: %d %s", method, path, query, w.Code, w.Body)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) &&
			!strings.HasSuffix(path, "/reload") { // APISIX says "done"
			t.Errorf("%s %s?%s: %s", method, path, query, w.Body)
		}
		if len(b.changes) > before && key != adminKey && !strings.Contains(query, adminKey) {
			t.Errorf("%s %s?%s: changed with the key %q", method, path, query, key)
		}
		if err := b.api.deps.Checker.Check(model.KindRoute, []byte(b.store.stored("/routes/r"))); b.store.stored("/routes/r") != "" && err != nil {
			t.Errorf("%s %s %s: stored %s: %v", method, path, body, b.store.stored("/routes/r"), err)
		}
	})
}
