package responserewrite

import (
	"regexp"
	"testing"
	"unicode/utf8"
)

// FuzzSplit: a line is split as APISIX's pattern splits it.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"a: b", "a :b c", ":", "a:", "a: ", "a:\v", "a b:c", "a:b:c", " a:b"} {
		f.Add(s)
	}
	pattern := regexp.MustCompile(`^([^:\s\v]+)[\s\v]*:[\s\v]*([^:]+)$`)
	f.Fuzz(func(t *testing.T, line string) {
		if !utf8.ValidString(line) {
			return
		}
		name, value, ok := split(line)
		m := pattern.FindStringSubmatch(line)
		if ok != (m != nil) || ok && (m[1] != name || m[2] != value) {
			t.Errorf("%q: %q, %q, %v, want %q", line, name, value, ok, m)
		}
	})
}
