package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"weir/internal/model"
)

func TestCostDecorations(t *testing.T) {
	b := newBench(t, nil)
	const path = "services/shop/graphql_cost_decorations"
	b.run(t, []step{
		{"PUT " + path + "/d1", `{"field_path":"Query.products"}`, 404, `{"error_msg":"service not found"}`},
		{"PUT services/shop", `{}`, 201, `…"id":"shop"…`},
		{"PUT services/blog", `{}`, 201, `…"id":"blog"…`},
		{"PUT " + path + "/d1", `{"field_path":"Query.products","add_value":1}`, 201,
			`{"key":"/apisix/services/shop/graphql_cost_decorations/d1","value":{"id":"d1","field_path":"Query.products","add_value":1,"service_id":"shop","create_time":1003,"update_time":1003}}`},
		{"PUT " + path + "/d1", `{"field_path":"Query.products","add_value":2,"service_id":"shop"}`, 200, `…"add_value":2,"service_id":"shop"…`},
		{"PUT " + path + "/d2", `{"field_path":"Query.orders","service_id":"blog"}`, 400, `{"error_msg":"wrong service_id, it is taken from the path"}`},
		{"PUT " + path + "/d2", `{"field_path":"Query.products"}`, 400, `{"error_msg":"field_path Query.products is already decorated on this service by [d1]"}`},
		{"PUT " + path + "/d2", `{"field_path":"9Query"}`, 400, `…property \"field_path\" validation failed…`},
		{"PUT " + path + "/d2", `{"field_path":"Q","add_value":-1}`, 400, `…property \"add_value\" validation failed…`},
		{"PUT " + path + "/d2", ``, 400, `{"error_msg":"invalid configuration"}`},
		{"PUT " + path + "/d2", `[]`, 400, `{"error_msg":"invalid configuration"}`},
		{"PUT " + path, `{"field_path":"Q"}`, 400, `{"error_msg":"missing graphql cost decoration id"}`},
		{"PUT services/blog/graphql_cost_decorations/d1", `{"field_path":"Query.products"}`, 201, `…"service_id":"blog"…`},
		{"POST " + path, `{"field_path":"Product.reviews"}`, 201, `…"key":"/apisix/services/shop/graphql_cost_decorations/0000…`},
		{"GET " + path, ``, 200, `…"total":2}`},
		{"GET " + path + "/d1", ``, 200, `…"add_value":2…`},
		{"GET services", ``, 200, `…"total":2}`},
		{"PATCH " + path + "/d1", `{"add_value":7}`, 200, `…"add_value":7,"service_id":"shop"…`},
		{"PATCH " + path + "/d1", `{"service_id":"blog"}`, 400, `{"error_msg":"service_id can not be patched"}`},
		{"PATCH " + path + "/d1", `{"field_path":"Product.reviews"}`, 400, `…field_path Product.reviews is already decorated on this service by […`},
		{"PATCH " + path + "/d1", `{"field_path":"Query.products"}`, 200, `…"add_value":7…`},
		{"PATCH " + path + "/none", `{"add_value":7}`, 404, missing},
		{"GET graphql_cost_decorations", ``, 400, `{"error_msg":"missing service id"}`},
		{"PUT graphql_cost_decorations/d", `{}`, 400, `{"error_msg":"missing service id"}`},
		{"DELETE graphql_cost_decorations/d", ``, 400, `{"error_msg":"missing service id"}`},
		{"DELETE " + path + "/d1", ``, 200, `{"deleted":"1","key":"/apisix/services/shop/graphql_cost_decorations/d1"}`},
		{"DELETE " + path + "/d1", ``, 404, missing},
		{"DELETE services/shop", ``, 200, `…"deleted":"1"…`},
		{"GET " + path, ``, 404, missing},
		{"GET services/blog/graphql_cost_decorations", ``, 200, `…"total":1}`},
	})
	last := b.changes[len(b.changes)-2]
	if want := (model.Key{Kind: model.KindCostDecoration, ID: "shop/graphql_cost_decorations/d1"}); last.Object != want || last.Action != "delete" {
		t.Errorf("recorded %+v", last)
	}
}

// What lies below a service that is gone does not belong to the next one.
func TestStaleCostDecorations(t *testing.T) {
	b := newBench(t, nil)
	const path = "services/s/graphql_cost_decorations"
	b.run(t, []step{
		{"PUT services/s", `{}`, 201, `…`},
		{"PUT " + path + "/d", `{"field_path":"Q"}`, 201, `…`},
	})
	b.store.mu.Lock()
	delete(b.store.kvs, prefix+"/services/s")
	b.store.mu.Unlock()
	b.run(t, []step{
		{"PUT services/s", `{"upstream":{"type":5}}`, 400, `…`},
		{"GET " + path, ``, 200, `…"total":1}`},
		{"PUT services/s", `{}`, 201, `…`},
		{"GET " + path, ``, 404, missing},
		{"PUT " + path + "/d", `{"field_path":"Q"}`, 201, `…`},
		{"PUT services/s", `{"desc":"x"}`, 200, `…`},
		{"GET " + path, ``, 200, `…"total":1}`},
	})
}

func TestReload(t *testing.T) {
	var fail error
	calls := 0
	b := newBench(t, func(_ *Config, d *Deps) {
		d.Reload = func(context.Context) (int64, error) { calls++; return 7, fail }
		d.Enabled = func(name string, stream bool) bool { return name != "limit-count" && !stream }
	})
	wrong := func(method string) string {
		return `{"error_msg":"please use PUT method to reload the plugins, ` + method + ` method is not allowed."}`
	}
	b.run(t, []step{
		{"GET plugins/reload", ``, 405, wrong("GET")},
		{"POST plugins/reload", ``, 405, wrong("POST")},
		{"PUT plugins/reload", ``, 200, `done`},
		{"GET plugins/list", ``, 200, `["key-auth","traffic-split","keep"]`},
		{"GET plugins/limit-count", ``, 404, `{"error_msg":"plugin not found in subsystem http"}`},
		{"PUT routes/1", `{"uri":"/","plugins":{"limit-count":{"count":1}}}`, 400, `{"error_msg":"unknown plugin [limit-count]"}`},
	})
	if calls != 1 || len(b.changes) != 1 || b.changes[0] != (Change{Who: "admin", Peer: "127.0.0.1:1", Action: "reload", Revision: 7, Live: true}) {
		t.Errorf("%d reloads, recorded %+v", calls, b.changes)
	}
	fail = errors.New("config.yaml: line 3")
	b.run(t, []step{{"PUT plugins/reload", ``, 503, `{"error_msg":"config.yaml: line 3"}`}})
	b.applier.stuck = true
	fail = nil
	b.api.cfg.AckTimeout = 1
	if w := b.send("PUT", "/apisix/admin/plugins/reload", ""); w.Header().Get("X-Weir-Applied") != "false" || w.Header().Get("X-Weir-Revision") != "7" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	r, err := http.NewRequest("PUT", "/apisix/admin/plugins/reload", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:1"
	if w := b.serve(r); w.Code != 401 {
		t.Errorf("without a key: %d", w.Code)
	}
}
