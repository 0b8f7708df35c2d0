package control

import (
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/upstream"
	"weir/internal/wire"
)

func TestHealth(t *testing.T) {
	pools := upstream.NewPools()
	defer pools.Close()
	a := snapshot.New(snapshot.Config{Upstream: upstream.Env{Pools: pools}})
	defer a.Close()
	put := func(k model.Kind, id, doc string) {
		a.Apply(model.Delta{Revision: a.Current().Revision + 1, Put: []model.Object{{Key: model.Key{Kind: k, ID: id}, Raw: []byte(doc)}}})
	}
	api := API(Config{Snapshot: a.Current, KeyPrefix: "/apisix"})
	check(t, api, "GET", "/v1/healthcheck", 200, `{}`)

	const checks = `"checks":{"active":{"type":"tcp","healthy":{"interval":1000},"unhealthy":{"interval":1000,"tcp_failures":200}},
		"passive":{"unhealthy":{"tcp_failures":1}}}`
	put(model.KindUpstream, "2", `{"nodes":{"127.0.0.1:1":1},`+checks+`}`)
	put(model.KindUpstream, "1", `{"nodes":{"127.0.0.1:1":1},`+checks+`}`)
	put(model.KindUpstream, "3", `{"nodes":{"127.0.0.1:1":1}}`)
	put(model.KindRoute, "1", `{"uri":"/a","upstream_id":"2"}`)
	put(model.KindRoute, "r", `{"uri":"/b","upstream":{"nodes":{"127.0.0.1:1":1},`+checks+`}}`)
	put(model.KindStreamRoute, "s", `{"server_port":1,"upstream":{"nodes":{"127.0.0.1:1":1}}}`)
	const idle = `{"name":"/apisix/upstreams/1","type":"tcp","nodes":{}}`
	check(t, api, "GET", "/v1/healthcheck", 200, `[{"name":"/apisix/routes/r","type":"tcp","nodes":{}},`+
		idle+`,{"name":"/apisix/upstreams/2","type":"tcp","nodes":{}}]`)
	for path, want := range map[string]string{
		"upstreams/1":     idle,
		"upstreams/1/":    idle,
		"upstreams/3":     `no checker for upstreams[3]`,
		"upstreams/9":     `upstreams[9] not found`,
		"routes/1":        `no checker for routes[1]`,
		"services/1":      `services[1] not found`,
		"stream_routes/s": `no checker for stream_routes[s]`,
		"upstreams":       `missing src id for src type upstreams`,
		"upstreams/":      `missing src id for src type upstreams`,
		"route/1":         `invalid src type route`,
		"consumers/1":     `invalid src type consumers`,
	} {
		code := 404
		switch {
		case strings.HasPrefix(want, "{"):
			code = 200
		case strings.HasPrefix(want, "invalid"):
			code = 400
		}
		if code != 200 {
			want = `{"error_msg":"` + want + `"}`
		}
		check(t, api, "GET", "/v1/healthcheck/"+path, code, want)
	}

	route := a.Current().Match(&plugin.Ctx{Request: &wire.Request{Method: "GET"}, Path: "/a"})
	u, _ := a.Current().Upstream(route, "")
	for range 2 { // the first starts the checks
		c := &upstream.Call{Request: &wire.Request{Method: "GET", Target: "/", Host: "x", Proto: wire.HTTP11}}
		if err := u.RoundTrip(c); err == nil {
			t.Error("port 1 answers")
		}
		c.Finish()
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", "/v1/healthcheck/upstreams/2", nil))
	if got := w.Body.String(); !strings.HasPrefix(got, `{"name":"/apisix/upstreams/2","type":"tcp","nodes":[{"ip":"127.0.0.1","port":1,"hostname":"127.0.0.1","status":"unhealthy","counter":{"success":0,"http_failure":0,"tcp_failure":`) {
		t.Error(got)
	}
	for _, path := range []string{"/v1/healthcheck", "/v1/healthcheck/upstreams/2"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", "text/html,*/*")
		w = httptest.NewRecorder()
		api.ServeHTTP(w, r)
		got := w.Body.String()
		if w.Header().Get("Content-Type") != "text/html" || !strings.Contains(got, "<td>127.0.0.1:1</td>\n    <td>unhealthy</td>") ||
			!strings.Contains(got, `<tr bgcolor="#FF0000">`) || strings.Contains(got, "APISIX") {
			t.Error(got)
		}
	}
}
