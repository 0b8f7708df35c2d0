package app

import (
	"fmt"
	"net/http"
	"testing"

	"weir/internal/model"
	"weir/internal/source/etcd"
)

// objectsOfAllKinds are documents that compile, by path.
var objectsOfAllKinds = map[string]string{
	"routes/1":                     `{"uri":"/a","service_id":"1","plugin_config_id":"1"}`,
	"services/1":                   `{"upstream_id":"1"}`,
	"upstreams/1":                  `{"type":"roundrobin","nodes":{"127.0.0.1:1":1}}`,
	"consumers/jack":               `{"username":"jack","group_id":"1","plugins":{"key-auth":{"key":"a"}}}`,
	"consumers/jack/credentials/1": `{"plugins":{"key-auth":{"key":"b"}}}`,
	"consumer_groups/1":            `{"plugins":{"ip-restriction":{"whitelist":["127.0.0.1"]}}}`,
	"plugin_configs/1":             `{"plugins":{"ip-restriction":{"whitelist":["127.0.0.1"]}}}`,
	"global_rules/1":               `{"plugins":{"request-id":{}}}`,
	"plugin_metadata/http-logger":  `{"log_format":{"a":"b"}}`,
	"stream_routes/1":              `{"server_port":9100,"upstream_id":"1"}`,
	"protos/1":                     `{"content":"syntax = \"proto3\"; message A {}"}`,
	"secrets/vault/1":              `{"uri":"http://127.0.0.1:1","prefix":"kv","token":"t"}`,
}

// TestDriftIsHealed plants drift of every kind in the running state of every kind of
// object: what runs is the store's again, and it was counted.
func TestDriftIsHealed(t *testing.T) {
	o, _ := options(t, t.TempDir(), `
deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}`)
	o.Config.APISIX.HTTP.ProxyMode = "http&stream" // stream routes are taken
	o.Config.Weir.Check.Every, o.Config.Weir.Check.Keys = 20e6, 3
	g := start(t, o)
	defer stop(t, g)
	for _, path := range []string{
		"upstreams/1", "services/1", "plugin_configs/1", "consumer_groups/1", "consumers/jack", "consumers/jack/credentials/1",
		"global_rules/1", "plugin_metadata/http-logger", "routes/1", "stream_routes/1", "protos/1", "secrets/vault/1",
	} {
		write(t, g, path, objectsOfAllKinds[path])
	}
	want := contents(g)
	if len(want) != len(objectsOfAllKinds) {
		t.Fatalf("%d objects run, want %d: %v", len(want), len(objectsOfAllKinds), want)
	}
	var lost, strange, other model.Delta
	for path := range objectsOfAllKinds {
		key, ok := etcd.ObjectKey(path)
		if !ok {
			t.Fatal(path)
		}
		object, _ := g.state.Current().Object(key)
		lost.Del = append(lost.Del, key)
		object.Modified--
		other.Put = append(other.Put, object)
		object.ID += "x"
		if key.Kind == model.KindConsumer { // its id is in the document
			object.Raw = []byte(`{"username":"jackx"}`)
		}
		strange.Put = append(strange.Put, object)
	}
	for kind, d := range map[string]model.Delta{etcd.DriftMissing: lost, etcd.DriftExtra: strange, etcd.DriftRevision: other} {
		before := g.store.Status().Checked.Drift[kind]
		d.Revision = g.state.Current().Revision
		g.state.Apply(d)
		until(t, "the healing of "+kind, func() bool { return fmt.Sprint(contents(g)) == fmt.Sprint(want) })
		until(t, "the count of "+kind, func() bool {
			return g.store.Status().Checked.Drift[kind]-before >= int64(len(objectsOfAllKinds))
		})
	}
	cycles, drift := g.store.Status().Checked.Cycles, g.store.Status().Checked.Drift
	until(t, "another cycle", func() bool { return g.store.Status().Checked.Cycles >= cycles+2 })
	if again := g.store.Status().Checked.Drift; fmt.Sprint(again) != fmt.Sprint(drift) {
		t.Errorf("drift without any: %v, before %v", again, drift)
	}
}

// contents are the running objects with their revisions and documents.
func contents(g *Gateway) map[string]string {
	m := map[string]string{}
	for k := range model.KindCount {
		for o := range g.state.Current().Objects(k) {
			m[o.Key.String()] = fmt.Sprintf("%d %s", o.Modified, o.Raw)
		}
	}
	return m
}

// TestNoDriftInChange: changes that come while slices are read and compared are no
// drift.
func TestNoDriftInChange(t *testing.T) {
	o, _ := options(t, t.TempDir(), `deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}`)
	o.Config.Weir.Check.Every, o.Config.Weir.Check.Keys = 1e6, 7
	g := start(t, o)
	defer stop(t, g)
	for i := range 300 {
		id := fmt.Sprint("upstreams/", i%20)
		if i%3 == 2 {
			if status := remove(t, g, fmt.Sprint("upstreams/", (i-1)%20)); status != 200 {
				t.Fatalf("DELETE: %d", status)
			}
		}
		write(t, g, id, fmt.Sprintf(`{"type":"roundrobin","nodes":{"127.0.0.1:%d":1}}`, i+1))
	}
	st := g.store.Status().Checked
	if len(st.Drift) != 0 || st.Cycles == 0 {
		t.Errorf("%+v", st)
	}
}

func remove(t *testing.T, g *Gateway, path string) int {
	t.Helper()
	req, err := http.NewRequest("DELETE", "http://"+g.Admin().String()+"/apisix/admin/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
