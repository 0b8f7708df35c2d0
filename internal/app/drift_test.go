package app

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"testing"

	"weir/internal/model"
	"weir/internal/source/etcd"
)

// objectsOfAllKinds are documents by path, in an order in which they can be written.
// The last ones do not compile.
func objectsOfAllKinds(t *testing.T) (paths []string, documents map[string]string) {
	pair, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	ssl := fmt.Sprintf(`{"sni":"a.test","cert":%q,"key":%q}`, text("CERTIFICATE", pair.Certificate[0]), text("PRIVATE KEY", key))
	documents = map[string]string{}
	for _, d := range [][2]string{
		{"plugins", `[{"name":"key-auth"},{"name":"ip-restriction"},{"name":"request-id"},{"name":"http-logger"}]`},
		{"upstreams/1", `{"type":"roundrobin","nodes":{"127.0.0.1:1":1}}`},
		{"services/1", `{"upstream_id":"1"}`},
		{"services/1/graphql_cost_decorations/1", `{"field_path":"Query.a","add_value":1,"service_id":"1"}`},
		{"plugin_configs/1", `{"plugins":{"ip-restriction":{"whitelist":["127.0.0.1"]}}}`},
		{"consumer_groups/1", `{"plugins":{"ip-restriction":{"whitelist":["127.0.0.1"]}}}`},
		{"consumers/jack", `{"username":"jack","group_id":"1","plugins":{"key-auth":{"key":"a"}}}`},
		{"consumers/jack/credentials/1", `{"plugins":{"key-auth":{"key":"b"}}}`},
		{"global_rules/1", `{"plugins":{"request-id":{}}}`},
		{"plugin_metadata/http-logger", `{"log_format":{"a":"b"}}`},
		{"routes/1", `{"uri":"/a","service_id":"1","plugin_config_id":"1"}`},
		{"stream_routes/1", `{"server_port":9100,"upstream_id":"1"}`},
		{"protos/1", `{"content":"syntax = \"proto3\"; message A {}"}`},
		{"secrets/vault/1", `{"uri":"http://127.0.0.1:1","prefix":"kv","token":"t"}`},
		{"ssls/1", ssl},
		{"routes/broken", `{"uri":5}`},
		{"services/broken", `{"upstream":5}`},
		{"upstreams/broken", `{"nodes":5}`},
		{"consumers/broken", `{"username":"broken","plugins":5}`},
	} {
		paths, documents[d[0]] = append(paths, d[0]), d[1]
	}
	return paths, documents
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
	paths, documents := objectsOfAllKinds(t)
	for _, path := range paths {
		if _, err := g.store.Put(t.Context(), "/"+path, []byte(documents[path]), etcd.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all objects", func() bool { return len(contents(g)) == len(paths) })
	want := contents(g)
	var lost, strange, older, newer model.Delta
	kinds := map[model.Kind]bool{model.KindProduct: true} // they have a source of their own
	for _, path := range paths {
		key, ok := etcd.ObjectKey(path)
		if !ok {
			t.Fatal(path)
		}
		kinds[key.Kind] = true
		object, _ := g.state.Current().Object(key)
		lost.Del = append(lost.Del, key)
		object.Modified--
		older.Put = append(older.Put, object)
		object.Modified += 1000
		newer.Put = append(newer.Put, object)
		switch object.ID += "x"; key.Kind {
		case model.KindPlugins: // there is one
			continue
		case model.KindConsumer: // its id is in the document
			object.Raw = fmt.Appendf(nil, `{"username":%q}`, object.ID)
		}
		strange.Put = append(strange.Put, object)
	}
	if len(kinds) != int(model.KindCount) {
		t.Errorf("objects of %d kinds, of %d", len(kinds), model.KindCount)
	}
	for _, c := range []struct {
		what  string
		drift string
		plant model.Delta
	}{
		{"lost objects", etcd.DriftMissing, lost},
		{"strange objects", etcd.DriftExtra, strange},
		{"older versions", etcd.DriftRevision, older},
		{"newer versions", etcd.DriftRevision, newer},
	} {
		before := g.store.Status().Checked.Drift[c.drift]
		c.plant.Revision = g.state.Current().Revision
		g.state.Apply(c.plant)
		until(t, "the healing of "+c.what, func() bool { return fmt.Sprint(contents(g)) == fmt.Sprint(want) })
		planted := int64(len(c.plant.Put) + len(c.plant.Del))
		until(t, "the count of "+c.what, func() bool { return g.store.Status().Checked.Drift[c.drift]-before >= planted })
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

// TestNoDriftInFaults: objects that cannot be used are the store's all the same.
func TestNoDriftInFaults(t *testing.T) {
	o, _ := options(t, t.TempDir(), `deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}`)
	o.Config.Weir.Check.Every, o.Config.Weir.Check.Keys = 5e6, 2
	g := start(t, o)
	defer stop(t, g)
	for _, d := range [][2]string{
		{"plugin_metadata/http-logger", `{"log_format":{"a":"b"}}`},
		{"plugin_metadata/http-logger", `{"log_format":5}`},
		{"plugin_metadata/limit-count", `{"limit_header":5}`},
		{"plugins", `[{"name":"key-auth"}]`},
		{"plugins", `7`},
		{"protos/1", `{"content":7}`},
		{"ssls/1", `7`},
		{"secrets/vault/1", `7`},
		{"stream_routes/1", `7`},
		{"consumers/jack", `7`},
		{"global_rules/1", `7`},
	} {
		res, err := g.store.Put(t.Context(), "/"+d[0], []byte(d[1]), etcd.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// Of two versions that come at once only the second is seen.
		until(t, "the write", func() bool { return g.state.Current().Revision >= res.Revision })
	}
	cycles := g.store.Status().Checked.Cycles
	until(t, "three cycles", func() bool { return g.store.Status().Checked.Cycles >= cycles+3 })
	if drift := g.store.Status().Checked.Drift; len(drift) != 0 {
		t.Error(drift)
	}
	if !g.state.Current().Enabled("key-auth", false) || g.state.Current().Enabled("cors", false) {
		t.Error("the last good list of plugins is not in force")
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
