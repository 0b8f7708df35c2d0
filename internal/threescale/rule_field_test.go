package threescale

import (
	"testing"

	"weir/internal/model"
	"weir/internal/wire"
)

// Field cases 126, 129 and 130: patterns with an escape, a repeated slash and a
// placeholder for more than letters.
func TestFieldRules(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct {
		pattern, target string
		want            bool
	}{
		{"/foo/100%25/bar$", "/foo/100%25/bar", true},
		{"/foo/100%25/bar$", "/foo/100/bar", false},
		{"//a//b", "/a/b", true},
		{"//a//b", "/a//b", true},
		{"/api/{email}/x", "/api/me@e.com/x", true},
		{"/api/{email}/x", "/api/me@e.com/y/x", false},
	} {
		r, err := NewRule(model.MappingRule{Method: "GET", Pattern: c.pattern})
		if err != nil {
			t.Fatal(err)
		}
		path, _, ok := wire.NormalizePath(nil, c.target, wire.PathOptions{})
		if !ok {
			t.Fatal(c.target)
		}
		if got := r.Matches("GET", string(wire.EscapePath(nil, path)), none); got != c.want {
			t.Errorf("%s for %s: %v", c.pattern, c.target, got)
		}
	}
}
