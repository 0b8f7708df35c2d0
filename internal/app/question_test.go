package app

import (
	"net/url"
	"testing"
)

// FuzzQuestion: what is asked of explain and of the calls of a profile.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{"url=/a", "url=http://h:1/a%3Fb&header=a:+b&client=::1&method=POST", "url=//x", "url=%zz", "header=:&url=/", "client=x&url=/", "url=/a%0d%0ab&method=%20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		a, wrong := QuestionOf(v)
		b, again := QuestionOf(v)
		if (wrong == nil) != (again == nil) || wrong == nil && a.Target != b.Target {
			t.Errorf("%q: %v, %v", query, wrong, again)
		}
		if wrong == nil && (a.Target == "" || a.Target[0] != '/') {
			t.Errorf("%q asks for %q", query, a.Target)
		}
	})
}
