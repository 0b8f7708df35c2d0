package expr

import (
	"fmt"
	"testing"
)

func TestJSONPath(t *testing.T) {
	const doc = `{"team":"a","orgs":{"api7":{"team":"b|c"},"apache":{"team":["d","e"]}},"list":[{"x":1},{"x":null}],"0":"zero"}`
	for path, want := range map[string]string{
		"team":             `["a"]`,
		"$.team":           `["a"]`,
		"orgs.api7.team":   `["b|c"]`,
		"$.orgs..team":     `["b|c" ["d","e"]]`,
		"$..team":          `["a" "b|c" ["d","e"]]`,
		"$['orgs'].apache": `[{"team":["d","e"]}]`,
		"$.list[1].x":      `[null]`,
		"$.list[*].x":      `[1 null]`,
		"nothing":          `[]`,
		"$":                `[` + doc + `]`,
	} {
		p, err := CompileJSONPath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := fmt.Sprintf("%s", p.Find([]byte(doc))); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		if got := p.Find([]byte(`{"a"`)); got != nil {
			t.Errorf("%s: found %s in what is not JSON", path, got)
		}
	}
	for _, path := range []string{"", "$.", "$x", "$.a[", "a..", "[0]", "$.a b"} {
		if _, err := CompileJSONPath(path); err == nil {
			t.Errorf("%q compiles", path)
		}
	}
}
