package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/document"
	"weir/internal/plugin"
	"weir/internal/source/declared"
	"weir/internal/source/standalone"
)

// newPushed is a bench whose API takes a whole configuration.
func newPushed(t *testing.T) *bench {
	t.Helper()
	var source *standalone.Source
	b := newBench(t, func(_ *Config, d *Deps) {
		byName := map[string]plugin.Spec{}
		for _, s := range d.Plugins {
			byName[s.Name] = s
		}
		var err error
		source, err = standalone.Open(standalone.Config{
			Dir: t.TempDir(), Now: func() time.Time { return time.Unix(1700000000, 0) },
			Checker: &declared.Checker{Documents: d.Checker, Plugins: byName, Compile: d.Applier.Check, Versioned: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Configs, d.Store = source, nil
	})
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) push(digest, contentType, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("PUT", "/apisix/admin/configs", strings.NewReader(body))
	r.Header.Set("X-API-KEY", adminKey)
	r.Header.Set("Content-Type", contentType)
	if digest != "" {
		r.Header.Set("x-digest", digest)
	}
	return b.serve(r)
}

func TestPushed(t *testing.T) {
	b := newPushed(t)
	version := func(w *httptest.ResponseRecorder) string {
		return w.Header().Get("X-Last-Modified") + " " + w.Header().Get("X-Digest")
	}
	w := b.send("GET", "/apisix/admin/configs", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"routes_conf_version":0`) || version(w) != " " || strings.Contains(w.Body.String(), "X-") {
		t.Errorf("before the first push: %d %s %v", w.Code, w.Body, w.Header())
	}
	const doc = `{"routes":[{"id":"r1","uri":"/r1","plugins":{}}]}`
	for _, c := range []struct {
		digest, typ, body string
		status            int
		want              string
	}{
		{"", "application/json", doc, 400, `{"error_msg":"missing digest header"}`},
		{"1", "application/json", "", 400, `{"error_msg":"invalid request body: empty request body"}`},
		{"1", "application/json", "{abcd", 400, `{"error_msg":"invalid request body: Expected object key string but found invalid token at character 2"}`},
		{"1", "application/json", "[1]", 400, `{"error_msg":"invalid request body: wrong type: expected object, got array"}`},
		{"1", "application/yaml", "invalid: yaml: [", 400, `{"error_msg":"invalid request body: invalid yaml request body"}`},
		{"1", "application/json", doc, 202, ""},
		{"1", "application/json", "{}", 204, ""},
		{"1", "application/json", "{", 400, `{"error_msg":"invalid request body: Expected object key string but found T_END at character 2"}`},
		{"2", "application/yaml; charset=utf-8", "routes:\n- id: r2\n  uri: /r2\n  plugins:\n    limit-count: {count: 1}\n", 202, ""},
		{"3", "application/json", `{"routes":[{"id":"r1","uri":"/r1","plugins":{"invalid-plugin":{}}}]}`, 400, `{"error_msg":"unknown plugin [invalid-plugin]"}`},
	} {
		w := b.push(c.digest, c.typ, c.body)
		if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.want {
			t.Errorf("%s %.30q: got %d %s, want %d %s", c.digest, c.body, w.Code, w.Body, c.status, c.want)
		}
		if c.status == 202 && version(w) != "1700000000 "+c.digest {
			t.Errorf("%s: %v", c.digest, w.Header())
		}
	}
	if n := len(b.changes); n != 2 || b.changes[1].Action != "push" || !b.changes[1].Live || b.changes[1].Who != "admin" || b.changes[1].Revision != 3 {
		t.Errorf("on record: %+v", b.changes)
	}
	w = b.send("GET", "/apisix/admin/configs", "")
	want := `{"routes":[{"id":"r2","uri":"/r2","plugins":{"limit-count":{"count":1}}}],"routes_conf_version":2,"services_conf_version":2,`
	if w.Code != 200 || !strings.HasPrefix(w.Body.String(), want) || !strings.HasSuffix(w.Body.String(), `,"X-Last-Modified":1700000000,"X-Digest":"2"}`+"\n") || version(w) != "1700000000 2" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest("GET", "/apisix/admin/configs", nil)
	r.Header.Set("Accept", "application/yaml")
	r.Header.Set("X-API-KEY", viewerKey)
	w = b.serve(r)
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/yaml" || !strings.Contains(w.Body.String(), "id: r2\n") || version(w) != "1700000000 2" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	w = b.send("HEAD", "/apisix/admin/configs", "")
	if w.Code != 200 || w.Body.Len() != 0 || version(w) != "1700000000 2" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestPushedAlone(t *testing.T) {
	b := newPushed(t)
	for _, c := range []struct {
		call   string
		status int
		want   string
	}{
		{"HEAD /apisix/admin", 200, ""},
		{"OPTIONS /apisix/admin/configs", 200, ""},
		{"GET /apisix/admin/routes", 404, ""},
		{"PUT /apisix/admin/routes/1", 404, ""},
		{"GET /apisix/admin/plugins/list", 404, ""},
		{"DELETE /apisix/admin/configs", 404, ""},
		{"GET /apisix/admin/configs/validate", 404, ""},
		{"POST /apisix/admin/schema/validate/routes", 404, ""},
		{"POST /apisix/admin/configs", 404, `{"error_msg":"Not found"}`},
		{"POST /apisix/admin/configs/validate", 400, `{"error_msg":"invalid request body: empty request body"}`},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		w := b.send(method, path, "")
		if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.want || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %s %v", c.call, w.Code, w.Body, w.Header())
		}
	}
	for _, method := range []string{"GET", "PUT", "HEAD"} {
		if w := b.serve(httptest.NewRequest(method, "/apisix/admin/configs", nil)); w.Code != 401 {
			t.Errorf("%s without a key: %d", method, w.Code)
		}
	}
	r := httptest.NewRequest("PUT", "/apisix/admin/configs", strings.NewReader("{}"))
	r.Header.Set("X-API-KEY", viewerKey)
	if w := b.serve(r); w.Code != 401 {
		t.Errorf("a viewer pushes: %d", w.Code)
	}
}

// full is a disk that is full.
type full struct{}

func (full) Current() *standalone.Document { return &standalone.Document{Value: document.NewObject()} }
func (full) Push(string, *document.Value) (*standalone.Document, error) {
	return nil, errors.New("standalone: no space left on device")
}

func TestPushedNotStored(t *testing.T) {
	b := newBench(t, func(_ *Config, d *Deps) { d.Configs = full{} })
	if w := b.push("1", "", "{}"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no space left on device") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPushedLate(t *testing.T) {
	b := newPushed(t)
	b.applier.stuck, b.api.cfg.AckTimeout = true, time.Millisecond
	if w := b.push("1", "", "{}"); w.Code != 202 || w.Header().Get("X-Weir-Applied") != "false" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestValidateConfigs(t *testing.T) {
	const failed = `{"error_msg":"Configuration validation failed","errors":[`
	chash := `"type":"chash","hash_on":"vars","nodes":{"127.0.0.1:1980":1}`
	newBench(t, nil).run(t, []step{
		{"POST configs/validate", `{}`, 200, `{}`},
		{"POST configs/validate", ``, 400, `{"error_msg":"invalid request body: empty request body"}`},
		{"POST configs/validate", `not json`, 400, `{"error_msg":"invalid request body: Expected value but found invalid token at character 1"}`},
		{"POST configs/validate", `{"routes":[{"uri":"/a","plugins":{}},{"uri":"/b","service_id":"none"}],"services":[{}],"consumers":[{"username":"jack",` + keyAuthA + `},{"id":"jack/credentials/c1",` + keyAuthA + `}],"routes_conf_version":1,"other":[1]}`, 200, `{}`},
		{"POST configs/validate", `{"routes":[{"id":"r1","uri":1},{"id":2,"uri":"/a","plugins":{"limit-count":{"count":-1}}},{"uri":"/x","plugins":{"nothing":{}}},"text"],"routes_conf_version":"x","ssls_conf_version":[]}`, 400,
			failed + `{"resource_type":"routes","error":"routes_conf_version must be a number, got string"},` +
				`{"resource_type":"routes","resource_id":"r1","index":0,"error":"invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number"},` +
				`{"resource_type":"routes","resource_id":2,"index":1,"error":"failed to check the configuration of plugin limit-count err: property \"count\" validation failed: expected -1 to be at least 1"},` +
				`{"resource_type":"routes","resource_id":"","index":2,"error":"unknown plugin [nothing]"},` +
				`{"resource_type":"routes","resource_id":"","index":3,"error":"invalid configuration: wrong type: expected object, got string"},` +
				`{"resource_type":"ssls","error":"ssls_conf_version must be a number, got table"}]}`},
		{"POST configs/validate", `{"routes":[{"id":"r1","uri":"/a","plugins":{}},{"id":"r1","uri":"/b","plugins":{}}],"consumers":[{"username":"x"},{"username":"x"},{"id":"a/credentials/b"},{"id":"a/credentials/b"}]}`, 400,
			failed + `{"resource_type":"routes","resource_id":"r1","index":1,"error":"found duplicate id r1 in routes"},` +
				`{"resource_type":"consumers","resource_id":"x","index":1,"error":"found duplicate username x in consumers"},` +
				`{"resource_type":"consumers","resource_id":"a/credentials/b","index":3,"error":"found duplicate credential id a/credentials/b in consumers"}]}`},
		{"POST configs/validate", `{"upstreams":[{"id":"u",` + chash + `}]}`, 400, `…"resource_id":"u","index":0,"error":"missing key"}…`},
		{"POST configs/validate", `{"secrets":[{"id":"x"},{"id":"y/1"},{},{"id":"vault/1","uri":"http://a","prefix":"p","token":"t"}]}`, 400,
			failed + `{"resource_type":"secrets","resource_id":"x","index":0,"error":"invalid secret id: x"},` +
				`{"resource_type":"secrets","resource_id":"y/1","index":1,"error":"invalid secret manager: y"},` +
				`{"resource_type":"secrets","resource_id":"","index":2,"error":"invalid secret id: "}]}`},
		{"POST configs/validate", `{"plugin_metadata":[{"id":"nothing"},{}],"consumer_groups":[{"plugins":{}}],"routes":{"r":1}}`, 400,
			failed + `{"resource_type":"routes","error":"invalid configuration: wrong type: expected array, got object"},` +
				`{"resource_type":"consumer_groups","resource_id":"","index":0,"error":"invalid configuration: property \"id\" is required"},` +
				`{"resource_type":"plugin_metadata","resource_id":"nothing","index":0,"error":"invalid plugin name"},` +
				`{"resource_type":"plugin_metadata","resource_id":"","index":1,"error":"missing plugin name"}]}`},
		{"POST configs/validate", `{"routes":[{"uri":"/a","plugins":{},"modifiedIndex":1}]}`, 400, `…additional properties forbidden, found modifiedIndex…`},
		{"GET routes", ``, 200, `{"list":[],"total":0}`},
	})
	b := newPushed(t)
	b.run(t, []step{
		{"POST configs/validate", `{"routes":[{"uri":"/a","plugins":{},"modifiedIndex":1}]}`, 200, `{}`},
		{"POST configs/validate", `{"routes":[{"uri":"/a","plugins":{},"modifiedIndex":"1"}]}`, 400, `…property \"modifiedIndex\" validation failed: wrong type: expected integer, got string…`},
		{"GET configs", ``, 200, `…"routes_conf_version":0,…`},
	})
	r := httptest.NewRequest("POST", "/apisix/admin/configs/validate", strings.NewReader("routes:\n- {id: 1, uri: 1}\n"))
	r.Header.Set("X-API-KEY", adminKey)
	r.Header.Set("Content-Type", "application/yaml")
	if w := b.serve(r); w.Code != 400 || !strings.Contains(w.Body.String(), `"resource_id":1,"index":0`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
