package expr

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzReplace: what takes a match's place by itself changes nothing, and both
// engines find the same where both know the pattern.
func FuzzReplace(f *testing.F) {
	for _, s := range []string{`a*`, `(a)(b)?`, `^a|b$`, `\ba`, `[^\S]`, `(é)|\xe9`, `(?=a)(a)+`, `x?`} {
		f.Add(s, "i", "baab é\xe9\n", "[$0${1}$$]")
	}
	same, err := CompileReplacement("$0")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pattern, options, s, text string) {
		if len(pattern) > 40 || len(s) > 40 || strings.Contains(pattern, `\p`) || strings.Contains(pattern, `\P`) {
			return
		}
		p, err := CompileOptions(pattern, options)
		if err != nil {
			return
		}
		out, n, err := p.Replace(nil, s, same, true)
		if err != nil {
			return
		}
		if string(out) != s {
			t.Errorf("%q by itself in %q: %q", pattern, s, out)
		}
		if with, err := CompileReplacement(text); err == nil {
			if _, again, err := p.Replace(nil, s, with, true); err == nil && again != n {
				t.Errorf("%q in %q: %d and %d times", pattern, s, n, again)
			}
		}
		first, err := p.Find(s)
		if err == nil && (first != nil) != (n > 0) {
			t.Errorf("%q in %q: %v, but %d times", pattern, s, first, n)
		}
		if p.linear == nil {
			return
		}
		if other := backtracking(pattern, options); other != nil {
			want, err := other.find(s, -1)
			if got, _ := p.find(s, -1); err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%q in %q: linear %v, backtracking %v", pattern, s, got, want)
			}
		}
	})
}

// backtracking is a pattern as the backtracking engine has it; nil: it does not
// know it.
func backtracking(pattern, options string) *Pattern {
	inline := ""
	for _, o := range options {
		switch o {
		case 'm', 's', 'x':
			inline += string(o)
		case 'a':
			pattern = `\A(?:` + pattern + ")"
		}
	}
	if inline != "" {
		pattern = "(?" + inline + ")" + pattern
	}
	re, err := compileBacktracking(pattern, strings.Contains(options, "i"))
	if err != nil {
		return nil
	}
	return &Pattern{backtrack: re}
}
