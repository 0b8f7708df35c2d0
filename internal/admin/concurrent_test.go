package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/source/etcd"
)

var noOptions = etcd.PutOptions{}

// Clients that write one object at once must not lose when it was made, and
// exactly one of them makes it.
func TestConcurrentPuts(t *testing.T) {
	var mu sync.Mutex
	now := int64(1000)
	b := newBench(t, func(_ *Config, d *Deps) {
		d.Record = nil
		d.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now++
			return time.Unix(now, 0)
		}
	})
	const writers = 32
	made := make([]int64, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			w := b.send("PUT", "/apisix/admin/upstreams/u", fmt.Sprintf(`{"nodes":{"a:%d":1}}`, i+1))
			var got struct {
				Value struct {
					Create int64 `json:"create_time"`
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code > 201 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if w.Code == 201 {
				made[i] = got.Value.Create
			}
		})
	}
	wg.Wait()
	var created int64
	for _, at := range made {
		if at != 0 && created != 0 {
			t.Error("made twice")
		}
		created = max(created, at)
	}
	if got := b.store.stored("/upstreams/u"); !strings.Contains(got, fmt.Sprintf(`"create_time":%d,`, created)) {
		t.Errorf("made at %d, stored %s", created, got)
	}
}

// Two changes of different members at once: one is refused, none is lost.
func TestConcurrentPatch(t *testing.T) {
	b := newBench(t, nil)
	b.send("PUT", "/apisix/admin/services/s", `{}`)
	var once sync.Once
	b.store.before = func() {
		once.Do(func() {
			b.store.before = nil
			if w := b.send("PATCH", "/apisix/admin/services/s", `{"name":"other"}`); w.Code != 200 {
				t.Error(w.Body)
			}
		})
	}
	w := b.send("PATCH", "/apisix/admin/services/s", `{"desc":"mine"}`)
	if w.Code != 503 || strings.TrimSpace(w.Body.String()) != `{"error_msg":"value changed before overwritten"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := b.store.stored("/services/s"); !strings.Contains(got, `"name":"other"`) || strings.Contains(got, "mine") {
		t.Errorf("stored: %s", got)
	}
}

// FuzzPatch holds that whatever is sent, what is stored afterwards passes the
// checks, and that no answer is a failure of the server's.
func FuzzPatch(f *testing.F) {
	f.Add("routes/r", `{"upstream":{"nodes":null}}`)
	f.Add("routes/r/upstream/nodes/a:80", `2`)
	f.Add("routes/r/", `[]`)
	f.Add("routes/r/plugins", `{"key-auth":{"header":null}}`)
	b := newBench(f, func(_ *Config, d *Deps) { d.Record = nil })
	f.Fuzz(func(t *testing.T, path, body string) {
		if strings.ContainsAny(path, "?#% \"<>\\^`{|}") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		b.store.kvs = nil
		b.send("PUT", "/apisix/admin/routes/r", `{"uri":"/a","upstream":{"nodes":{"a:80":1}},"plugins":{"limit-count":{"count":1}}}`)
		if w := b.send("PATCH", "/apisix/admin/"+path, body); w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if err := b.api.deps.Checker.Check(0, []byte(b.store.stored("/routes/r"))); err != nil {
			t.Errorf("stored %s: %v", b.store.stored("/routes/r"), err)
		}
	})
}

// What an object refers to, or lies below, is deleted between the check and the
// write: nothing is stored. A credential would otherwise open the gateway again
// for the next consumer of that name.
func TestDeletedBeforeWritten(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		deleted            string
		status             int
		answer, stored     string
	}{
		{"PUT", "consumers/jack/credentials/1", `{"plugins":{"key-auth":{"key":"k"}}}`, "consumers/jack", 404, `{"error_msg":"consumer not found"}`, "/consumers/jack/credentials/1"},
		{"PUT", "routes/1", `{"uri":"/a","upstream_id":"u"}`, "upstreams/u", 400, `{"error_msg":"failed to fetch upstream info by upstream id [u], response code: 404"}`, "/routes/1"},
		{"POST", "routes", `{"uri":"/a","service_id":"s"}`, "services/s", 400, `{"error_msg":"failed to fetch service info by service id [s], response code: 404"}`, "/routes/"},
		{"PATCH", "services/s", `{"upstream_id":"u"}`, "upstreams/u", 400, `{"error_msg":"failed to fetch upstream info by upstream id [u], response code: 404"}`, ""},
		{"PUT", "services/s/graphql_cost_decorations/1", `{"field_path":"Query.a"}`, "services/s", 404, `{"error_msg":"service not found"}`, "/services/s/graphql_cost_decorations/1"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			b := newBench(t, nil)
			b.send("PUT", "/apisix/admin/consumers", `{"username":"jack"}`)
			b.send("PUT", "/apisix/admin/upstreams/u", `{"nodes":{"a:1":1}}`)
			b.send("PUT", "/apisix/admin/services/s", `{}`)
			b.store.before = func() {
				b.store.before = nil
				if w := b.send("DELETE", "/apisix/admin/"+c.deleted, ""); w.Code != 200 {
					t.Error(w.Body)
				}
			}
			w := b.send(c.method, "/apisix/admin/"+c.path, c.body)
			if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.answer {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			for key := range b.store.kvs {
				if c.stored != "" && strings.HasPrefix(key, prefix+c.stored) {
					t.Errorf("stored: %s", key)
				}
			}
		})
	}
}
