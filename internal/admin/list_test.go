package admin

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	b := newBench(t, nil)
	put := func(id, doc string) {
		t.Helper()
		if w := b.send("PUT", "/apisix/admin/routes/"+id, doc); w.Code != 201 {
			t.Fatal(w.Body)
		}
	}
	for _, id := range []string{"s1", "s2"} {
		b.send("PUT", "/apisix/admin/services/"+id, `{}`)
	}
	put("c", `{"uri":"/orders/1","name":"orders","service_id":"s1","labels":{"team":"a"}}`)
	put("b", `{"uris":["/users","/people"],"name":"users-eu","service_id":"s2","labels":{"team":"b","env":"x"}}`)
	put("a", `{"uri":"/x","service_id":"s1"}`)
	for i := range 9 {
		put(fmt.Sprintf("z%d", i), `{"uri":"/many","name":"many","plugins":{}}`)
	}
	for _, c := range []struct {
		query, ids string
		total      int
	}{
		{"", "a b c z0 z1 z2 z3 z4 z5 z6 z7 z8", 12},
		{"name=orders", "c", 1}, {"name=^(orders|users-..)$", "b c", 2}, {"name=nil", "a", 1}, {"name=(?<=us)ers", "b", 1}, {"name=(", "", 0},
		{"label=team", "b c", 2}, {"label=env", "b", 1}, {"label=none", "", 0}, {"label=", "", 0},
		{"uri=^/people", "b", 1}, {"uri=/x", "a", 1}, {"uri=.", "a b c z0 z1 z2 z3 z4 z5 z6 z7 z8", 12},
		{"label=team&name=eu", "b", 1},
		{"filter=" + url.QueryEscape("service_id=s1"), "a c", 2}, {"filter=" + url.QueryEscape("service_id=s1&service_id=s2"), "b", 1},
		{"filter=" + url.QueryEscape("unknown=1"), "a b c z0 z1 z2 z3 z4 z5 z6 z7 z8", 12},
		{"filter=" + url.QueryEscape("upstream_id=1"), "", 0}, {"filter=" + url.QueryEscape("service_id=s1&upstream_id=x"), "", 0},
		{"page=1&page_size=10", "c b a z0 z1 z2 z3 z4 z5 z6", 12}, {"page=2&page_size=10", "z7 z8", 12}, {"page=3&page_size=10", "", 12},
		{"page=0&page_size=10", "c b a z0 z1 z2 z3 z4 z5 z6", 12}, {"page=-9&page_size=500", "c b a z0 z1 z2 z3 z4 z5 z6 z7 z8", 12},
		{"page=1e300&page_size=10", "", 12}, {"page=1", "a b c z0 z1 z2 z3 z4 z5 z6 z7 z8", 12}, {"page=x&page_size=3", "a b c z0 z1 z2 z3 z4 z5 z6 z7 z8", 12},
		{"page=1&page_size=10&name=many", "z0 z1 z2 z3 z4 z5 z6 z7 z8", 9},
	} {
		w := b.send("GET", "/apisix/admin/routes?"+c.query, "")
		var got struct {
			List []struct {
				Key                         string
				CreatedIndex, ModifiedIndex int64
				Value                       struct{ ID string }
			}
			Total int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.List == nil {
			t.Errorf("%s: %d %s %v", c.query, w.Code, w.Body, err)
			continue
		}
		var ids []string
		for _, n := range got.List {
			ids = append(ids, n.Value.ID)
			if n.Key != "/apisix/routes/"+n.Value.ID || n.CreatedIndex == 0 || n.ModifiedIndex != n.CreatedIndex {
				t.Errorf("%s: %+v", c.query, n)
			}
		}
		if strings.Join(ids, " ") != c.ids || got.Total != c.total {
			t.Errorf("%s: got %v of %d, want %s of %d", c.query, ids, got.Total, c.ids, c.total)
		}
	}
	for _, q := range []string{"page=1&page_size=9", "page=1&page_size=501", "page=1&page_size=-1", "page=1&page_size=NaN"} {
		if w := b.send("GET", "/apisix/admin/routes?"+q, ""); w.Code != 400 || w.Body.String() != "page_size must be between 10 and 500" {
			t.Errorf("%s: %d %s", q, w.Code, w.Body)
		}
	}
}

// What others left in the store is shown, not hidden and not a failure.
func TestListForeignValues(t *testing.T) {
	b := newBench(t, nil)
	b.send("PUT", "/apisix/admin/services/1", `{}`)
	for key, value := range map[string]string{"/services/1/graphql_cost_decorations/d": `{}`, "/services/odd": `not json`} {
		if _, err := b.store.Put(t.Context(), key, []byte(value), noOptions); err != nil {
			t.Fatal(err)
		}
	}
	b.run(t, []step{
		{"GET services", ``, 200, `…{"key":"/apisix/services/odd","value":"not json",…`},
		{"GET services", ``, 200, `…"total":2}…`},
		{"GET services/odd", ``, 200, `…"value":"not json"…`},
		{"PATCH services/odd", `{}`, 400, `…invalid configuration: the stored object is not JSON…`},
		{"PUT services/odd", `{}`, 200, `…"create_time":1004…`},
		{"DELETE services/1", ``, 200, `…"deleted":"1"…`},
		{"GET services", ``, 200, `…"total":1}…`},
	})
	if got := b.store.stored("/services/1/graphql_cost_decorations/d"); got != "" {
		t.Errorf("the service's decorations are still there: %s", got)
	}
}
