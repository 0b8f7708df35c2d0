package secret

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"weir/internal/document"
)

// FuzzResolve: exactly the strings that are references to something are replaced, as
// a plain walk over the document does it.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{
		`{"key":"$env://KEY","in":[{"x":"$ENV://DOC/a"}]}`, `["$env://","$env:///","$env://DOC/","$env://DOC/a/b","$Env://EMPTY"]`,
		`{"$env://KEY":"\u0024env://KEY"}`, `"$env://KEY/a"`, `{"a":"$secret://vault/1/a/b"}`,
	} {
		f.Add(s)
	}
	env := Env{Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": "k1", "DOC": `{"a":"x\"y","a/b":"z","n":1}`, "EMPTY": ""}[name]
		return v, ok
	}}
	f.Fuzz(func(t *testing.T, raw string) {
		got := env.Resolve([]byte(raw))
		if _, err := document.Parse([]byte(raw)); err != nil {
			if string(got) != raw {
				t.Errorf("%q became %q", raw, got)
			}
			return
		}
		if !json.Valid([]byte(raw)) {
			return // control characters in strings, which lua-cjson takes
		}
		before, after := plain(t, []byte(raw)), plain(t, got)
		if want := walk(env, before); !reflect.DeepEqual(after, want) {
			t.Errorf("%q became %q, want %v", raw, got, want)
		}
	})
}

func plain(t *testing.T, raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}

// walk is Resolve, of a decoded document.
func walk(env Env, v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = walk(env, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = walk(env, v[k])
		}
	case string:
		if value, ok := env.Value(v); ok {
			return value
		}
	}
	return v
}
