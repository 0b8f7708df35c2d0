package declared

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/document"
	"weir/internal/model"
)

func parse(t testing.TB, doc string) *document.Value {
	t.Helper()
	v, err := document.Parse([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

func TestItems(t *testing.T) {
	doc := parse(t, `{
		"consumers":[{"username":"jack"},{"id":"x","username":"ann"},{"id":"jack/credentials/c1"},{"id":"jack/credentials/c2","name":"n"}],
		"routes":[{"id":1,"uri":"/a"},{"uri":"/b"},{"id":"r3"},{"id":"4.0"},{"id":5.0},{"id":null},"text",{"id":"m","modifiedIndex":7,"uri":"/m"}],
		"secrets":[{"id":"vault/1"}], "plugin_metadata":[{"id":"cors"},{}],
		"plugins":[{"name":"a"}], "ssls":{}, "protos":null, "unknown":[{}], "services":{"s":{}}, "upstreams":[]}`)
	var got []string
	for _, it := range Items(doc) {
		got = append(got, fmt.Sprintf("%s %d %s", it.Key, it.Index, it.Raw))
	}
	want := []string{
		`routes/1 0 {"id":1,"uri":"/a"}`,
		`routes/arr_2 1 {"uri":"/b"}`,
		`routes/r3 2 {"id":"r3"}`,
		`routes/4.0 3 {"id":"4.0"}`,
		`routes/5 4 {"id":5.0}`,
		`routes/arr_6 5 {"id":null}`,
		`routes/arr_7 6 "text"`,
		`routes/m 7 {"id":"m","uri":"/m"}`,
		`services/ -1 {"s":{}}`,
		`consumers/jack 0 {"username":"jack"}`,
		`consumers/ann 1 {"id":"x","username":"ann"}`,
		`consumers/jack/credentials/c1 2 {"id":"jack/credentials/c1"}`,
		`consumers/jack/credentials/c2 3 {"id":"jack/credentials/c2","name":"n"}`,
		`plugin_metadata/cors 0 {"id":"cors"}`,
		`plugin_metadata/arr_2 1 {}`,
		`secrets/vault/1 0 {"id":"vault/1"}`,
		`plugins -1 [{"name":"a"}]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if doc.Get("routes").Items[7].Get("modifiedIndex") == nil {
		t.Error("the document was changed")
	}
	for in, want := range map[string]string{`{"plugins":{}}`: "plugins []", `{"plugins":[]}`: "plugins []", `{}`: ""} {
		got := ""
		for _, it := range Items(parse(t, in)) {
			got += it.Key.String() + " " + string(it.Raw)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func describe(d model.Delta) string {
	var out []string
	for _, o := range d.Put {
		out = append(out, fmt.Sprintf("+%s@%d,%d", o.Key, o.Created, o.Modified))
	}
	for _, k := range d.Del {
		out = append(out, "-"+k.String())
	}
	return fmt.Sprintf("%d: %s", d.Revision, strings.Join(out, " "))
}

func TestState(t *testing.T) {
	s := new(State)
	for _, c := range []struct{ doc, want string }{
		{`{}`, "1: "},
		{`{}`, "same"},
		{`{"routes":[{"id":1,"uri":"/a"},{"uri":"/b"}],"upstreams":[{"id":1}]}`, "2: +routes/1@1,2 +routes/arr_2@2,2 +upstreams/1@1,2"},
		{`{"routes":[{"id":1,"uri":"/a"},{"uri":"/b"}],"upstreams":[{"id":1}]}`, "same"},
		{`{"routes":[{"id":1,"uri":"/x"},{"uri":"/b"}],"upstreams":[{"id":1}]}`, "3: +routes/1@1,3"},
		{`{"upstreams":[{"id":1}],"routes":[{"uri":"/b"},{"id":1,"uri":"/x"}]}`, "4: +routes/arr_1@1,4 -routes/arr_2"},
		{`{"upstreams":[{"id":1},{"id":1,"desc":"the last one counts"}]}`, "5: +upstreams/1@1,5 -routes/arr_1 -routes/1"},
		{`{}`, "6: -upstreams/1"},
	} {
		next := s.Next(Items(parse(t, c.doc)))
		got := "same"
		if next != s {
			got = describe(next.Since(s))
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.doc, got, c.want)
		}
		s = next
	}
}

// randomDocument is a document with some objects out of few.
func randomDocument(r *rand.Rand) *document.Value {
	doc := document.NewObject()
	for _, section := range []string{"routes", "upstreams", "consumers"} {
		var list []string
		for i := range 6 {
			if r.IntN(3) == 0 {
				continue
			}
			id := fmt.Sprintf(`"id":%d,`, i)
			if r.IntN(4) == 0 {
				id = ""
			}
			list = append(list, fmt.Sprintf(`{%s"v":%d}`, id, r.IntN(2)))
		}
		if len(list) == 0 && r.IntN(2) == 0 {
			continue
		}
		v, err := document.Parse([]byte("[" + strings.Join(list, ",") + "]"))
		if err != nil {
			panic(err)
		}
		doc.Set(section, v)
	}
	return doc
}

// What the steps add up to is the document, and no step says what was known.
func TestDifferential(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s, folded := new(State), map[model.Key]string{}
	for i := range 2000 {
		items := Items(randomDocument(r))
		next := s.Next(items)
		d := next.Since(s)
		if next == s {
			d = model.Delta{}
		}
		for _, o := range d.Put {
			if folded[o.Key] == string(o.Raw) && o.Created == 1 {
				if _, had := s.Get(o.Key); had && s.entries[o.Key].Created == o.Created {
					t.Fatalf("step %d repeats %s", i, o.Key)
				}
			}
			folded[o.Key] = string(o.Raw)
		}
		for _, k := range d.Del {
			if _, had := folded[k]; !had {
				t.Fatalf("step %d deletes %s, which is not there", i, k)
			}
			delete(folded, k)
		}
		want := map[model.Key]string{}
		for _, it := range items {
			want[it.Key] = string(it.Raw)
		}
		if !maps.Equal(folded, want) {
			t.Fatalf("step %d: %v, want %v", i, folded, want)
		}
		s = next
	}
}
