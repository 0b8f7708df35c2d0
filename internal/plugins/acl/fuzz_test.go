package acl

import (
	"slices"
	"testing"
)

// FuzzValues: text has one of some values exactly if one of those that it is divided
// into is among them.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"a,b", `["a","b",1,null]`, "[a", " a , b", ",", "", "a"} {
		f.Add(s, "a", `\s|,`)
	}
	f.Fuzz(func(t *testing.T, text, value, separator string) {
		if got, want := hasOne(text, []string{value}), slices.Contains(divide(text), value); got != want {
			t.Errorf("%q has %q: %v", text, value, got)
		}
		p, err := newParser("segmented_text", separator)
		if err != nil || len(text) > 40 || len(separator) > 40 {
			return
		}
		n := 0
		for _, s := range p.text(text) {
			n += len(s)
		}
		if n > len(text) {
			t.Errorf("%q by %q: %q", text, separator, p.text(text))
		}
	})
}
