package threescale

import (
	"net/url"
	"strings"
	"testing"
)

// What is no escape stays, and nothing else (lua-nginx-module:
// ngx_http_lua_unescape_uri).
func TestMalformedArgument(t *testing.T) {
	for query, want := range map[string]string{"a%5Fb=%41%zz+": "A%zz ", "a_b=%": "%", "a_b=%4&x": "%4"} {
		if got, ok := LastArgument(query, "a_b"); !ok || got != want {
			t.Errorf("%q: %q, %v", query, got, ok)
		}
	}
}

// FuzzArguments: the ways to find an argument agree, with each other and with net/url
// where that takes the query.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=%41%2&a", "a", "%61=+&a=x", "a=%zz", "&=&a==&"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, query, name string) {
		if name == "" {
			return
		}
		got, ok := LastArgument(query, name)
		want, has := "", false
		EachArgument(query, func(n, value string, _ bool) {
			if n == name {
				want, has = value, true
			}
		})
		if got != want || ok != has || ParseQuery(query).Has(name) != has {
			t.Errorf("%q in %q: %q, %v, want %q, %v", name, query, got, ok, want, has)
		}
		values, err := url.ParseQuery(query)
		if err != nil || strings.Contains(query, ";") {
			return
		}
		if list := values[name]; has != (len(list) > 0) || has && list[len(list)-1] != got {
			t.Errorf("%q in %q: %q, want %q", name, query, got, list)
		}
	})
}
