package app

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"weir/internal/control"
	"weir/internal/source/etcd"
)

// TestServerInfo: a gateway whose list names server-info is found in the store.
func TestServerInfo(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	o.Config.Plugins = []string{"server-info"}
	o.Config.PluginAttr = map[string]json.RawMessage{"server-info": []byte(`{"report_ttl":3}`)}
	g := start(t, o)
	defer stop(t, g)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		kv, _, err := g.store.Get(t.Context(), "/data_plane/server_info/"+g.id)
		if err != nil {
			t.Fatal(err)
		}
		if kv == nil {
			if time.Now().After(deadline) {
				t.Fatal("nothing is reported")
			}
			continue
		}
		var got control.Server
		if err := json.Unmarshal(kv.Value, &got); err != nil || got != g.server(t.Context()) {
			t.Errorf("reported %s, %v; want %+v", kv.Value, err, g.server(t.Context()))
		}
		return
	}
}

func TestServerInfoTTL(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	o.Config.Plugins = []string{"server-info"}
	o.Config.PluginAttr = map[string]json.RawMessage{"server-info": []byte(`{"report_ttl":1}`)}
	g, err := Start(t.Context(), o)
	if err == nil {
		_ = g.Stop(t.Context())
	}
	const want = "plugin_attr.server-info: report_ttl 1 is not between 3 and 86400"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestNodeStatus: connections and requests are counted.
func TestNodeStatus(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	g := start(t, o)
	defer stop(t, g)
	const route = `{"uri":"/apisix/status","plugins":{"public-api":{}}}`
	put, err := g.store.Put(t.Context(), "/routes/1", []byte(route), etcd.PutOptions{})
	if err == nil {
		err = g.state.Wait(t.Context(), put.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + g.Data()[0].String() + "/apisix/status"
	for _, requests := range []string{"1", "2"} {
		code, body := get(t, url)
		want := fmt.Sprintf(`{"id":"%s","status":{"total":"%s","accepted":"1","handled":"1","active":"1","reading":"0","writing":"1","waiting":"0"}}`, g.id, requests)
		if code != 200 || body != want {
			t.Errorf("%d %s, want %s", code, body, want)
		}
	}
	if code, _ := get(t, url+"/x"); code != 404 {
		t.Errorf("another path: %d", code)
	}
}
