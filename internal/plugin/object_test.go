package plugin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/plugin"
)

func TestObject(t *testing.T) {
	for _, c := range []struct{ doc, name, want string }{
		{`{}`, "a", ""},
		{` { } `, "a", ""},
		{`{"a":1}`, "a", "1"},
		{`{"a":1}`, "b", ""},
		{"\t{ \"a\" : -1.5e3 , \"b\" : true }\n", "a", "-1.5e3"},
		{"\t{ \"a\" : -1.5e3 , \"b\" : true }\n", "b", "true"},
		{`{"x":"a\":{[","a":"\\","b":null}`, "a", `"\\"`},
		{`{"x":{"a":1,"y":["]}",{"a":[2]}]},"a":{"b":[]}}`, "a", `{"b":[]}`},
		{`{"x":[[],[{}]],"a":[1,[2]] }`, "a", "[1,[2]]"},
		{`{"a":1,"a":2}`, "a", "2"},
		{`{"\u0061":3}`, "a", "3"},
		{`{"":4}`, "", "4"},
	} {
		o, ok := plugin.ParseObject([]byte(c.doc))
		if !ok {
			t.Errorf("%s is no object", c.doc)
			continue
		}
		if got := string(o.Member(c.name)); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.doc, c.name, got, c.want)
		}
	}
	for _, doc := range []string{``, ` `, `{`, `[]`, `1`, `null`, `"{}"`, `{"a":1}x`, `{"a":1,}`} {
		if _, ok := plugin.ParseObject([]byte(doc)); ok {
			t.Errorf("%q is an object", doc)
		}
	}
}

func TestText(t *testing.T) {
	ctx := new(plugin.Ctx)
	for _, c := range []struct {
		value, want string
		ok          bool
	}{
		{`"a b"`, "a b", true},
		{`""`, "", true},
		{`"\u00e9\n\""`, "é\n\"", true},
		{`1`, "", false},
		{`null`, "", false},
		{`["a"]`, "", false},
		{``, "", false},
	} {
		if got, ok := ctx.Text([]byte(c.value)); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v", c.value, got, ok)
		}
	}
}

// FuzzObject compares with encoding/json.
func FuzzObject(f *testing.F) {
	f.Add(`{"a":{"b":[1,"}"]},"\u0061":2}`, "a")
	f.Add(`{"a":1, "b" : "x\\" }`, "b")
	f.Fuzz(func(t *testing.T, doc, name string) {
		o, ok := plugin.ParseObject([]byte(doc))
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(doc), &m); (err == nil && m != nil) != ok {
			t.Fatalf("object %v, encoding/json %v", ok, err)
		}
		if !ok {
			return
		}
		if !utf8.ValidString(doc) || strings.Contains(doc, `\ud`) || strings.Contains(doc, `\uD`) {
			return // encoding/json replaces what is not Unicode
		}
		if want, there := m[name]; string(o.Member(name)) != string(want) || there != (o.Member(name) != nil) {
			t.Errorf("%q is %s, want %s", name, o.Member(name), want)
		}
	})
}
