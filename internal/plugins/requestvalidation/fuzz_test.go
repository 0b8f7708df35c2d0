package requestvalidation

import (
	"net/url"
	"strings"
	"testing"

	"weir/internal/plugin"
)

// FuzzFields: a form has the values that net/url finds in it.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"a=1&a=2&b", "a=%41+%2B&=x&&", "a", "%61=b&a=c", "a=%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, form string) {
		got := fields(new(plugin.Ctx), form)
		want, err := url.ParseQuery(form)
		if err != nil || strings.Contains(form, ";") {
			return
		}
		delete(want, "")
		if len(got) != len(want) {
			t.Fatalf("%q: %v, want %v", form, got, want)
		}
		for name, values := range want {
			list, many := got[name].([]any)
			if !many {
				list = []any{got[name]}
			}
			if len(list) != len(values) {
				t.Fatalf("%q: %v, want %v", form, got, want)
			}
			for i, v := range list {
				if v != values[i] && !(v == true && values[i] == "") {
					t.Errorf("%q: %v, want %v", form, got, want)
				}
			}
		}
	})
}
