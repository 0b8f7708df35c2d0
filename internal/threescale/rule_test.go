package threescale

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/wire"
)

// covered is what the specification says of a pattern and a path (apicast.md
// §2.4), step by step and slowly. ok is false for what is no regular expression.
func covered(pattern, path string) (matches, ok bool) {
	pattern = regexp.MustCompile(`//+`).ReplaceAllString(pattern, "/")
	pattern = regexp.MustCompile(`(?s)\?.*`).ReplaceAllString(pattern, "")
	pattern = regexp.MustCompile(`\{.+?\}`).ReplaceAllLiteralString(pattern, `([\w\-.~%!$&'()*+,;=@:]+)`)
	pattern = regexp.MustCompile(`\.`).ReplaceAllLiteralString(pattern, `\.`)
	re, err := regexp.Compile("^" + pattern)
	if err != nil {
		return false, false
	}
	return re.MatchString(path), true
}

func TestRulePatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true},
		{"/", "/anything/below", true},
		{"/$", "/", true},
		{"/$", "/a", false},
		{"/foo", "/foobar", true},
		{"/foo", "/bar/foo", false},
		{"/Foo", "/foo", false},
		{"/foo?bar=baz", "/foo", true},
		{"/foo/{id}", "/foo/", false},
		{"/foo/{id}", "/foo/1/2", true},
		{"/foo/{id}$", "/foo/1/2", false},
		{"/foo/{id}/bar", "/foo/1/bar", true},
		{"/foo/{id}/bar", "/foo/1/2/bar", false},
		{"/foo/{id}.json", "/foo/1.json", true},
		{"/foo/{id}.json", "/foo/1-json", false},
		{"/{a}-{b}$", "/x-y-z", true},
		{"/{a}{b}$", "/x", false},
		{"/{}", "/{}", true}, // an empty one is none
		{"/v1.0/", "/v1.0/x", true},
		{"/v1.0/", "/v1x0/x", false},
		{"/(foo|bar)$", "/bar", true},
		{"/foo|/bar", "/x/bar", true}, // only the first branch is anchored, as in APIcast
		{"/a+$", "/aaa", true},
		{"/foo/100%25/bar$", "/foo/100%25/bar", true},
		{"//a//b", "/a/b", true},
		{"/api/{email}/x", "/api/me@e.com/x", true},
	} {
		r, err := NewRule(model.MappingRule{Method: "ANY", Pattern: tc.pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.covers(tc.path); got != tc.want {
			t.Errorf("%s on %s: %v", tc.pattern, tc.path, got)
		}
		if want, ok := covered(tc.pattern, tc.path); !ok || want != tc.want {
			t.Errorf("%s on %s: the specification says %v", tc.pattern, tc.path, want)
		}
	}
}

// Field cases 126, 129 and 130: from the request's target to the match.
func TestPrefix(t *testing.T) {
	for pattern, want := range map[string]string{
		"/a//b": "/a/b", "/a/{x}/c": "/a/", "/a.b{x}": "/a.b", "/a.b{x}c": "/a.", "/ab*": "/a", "/a(b|c)d": "/a", "/a|/b": "", "/é*": "/", "/é?": "/é",
		"/a(|b)|c": "", `/a\(|b`: "", "/a[(]|b": "", "/a$b": "/a", "/a^": "/a",
	} {
		r, err := NewRule(model.MappingRule{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Prefix(); got != want {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
}

func TestRuleFieldCases(t *testing.T) {
	for _, tc := range []struct{ pattern, target string }{
		{"/foo/100%25/bar$", "/foo/100%25/bar"}, // case 126
		{"/foo /bar$", ""},                      // and what no rule can be written for
		{"/foo%20/bar$", "/foo%20/bar"},
		{"//a//b", "/a/b"}, // case 129
		{"/a/b", "//a//b"},
		{"/api/{email}/x", "/api/me@e.com/x"},       // case 130
		{"/api/{email}/x$", "/api/me%40e.com/x"},    // the same request
		{"/api/{name}/x$", "/api/m%C3%BCller%2B/x"}, // what is encoded is of a segment
	} {
		r, err := NewRule(model.MappingRule{Method: "GET", Pattern: tc.pattern})
		if err != nil {
			t.Fatal(err)
		}
		target := tc.target
		if target == "" {
			target = "/foo%20/bar"
		}
		path, _, _ := wire.NormalizePath(nil, target, wire.PathOptions{})
		got := r.Matches("GET", EscapePath(path), func(string) (string, bool) { return "", false })
		if got != (tc.target != "") {
			t.Errorf("%s on %s: %v", tc.pattern, target, got)
		}
	}
}

func TestRuleParameters(t *testing.T) {
	r, err := NewRule(model.MappingRule{Method: "POST", Pattern: "/a", Parameters: []model.QueryParameter{
		{Name: "x", Value: "1"}, {Name: "y", Value: "{any}"}, {Name: "z", Value: ""},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		method, query string
		want          bool
	}{
		{"POST", "x=1&y=&z=", true},
		{"POST", "x=2&x=1&y=7&z", true}, // the last one counts
		{"POST", "x=1&x=2&y=7&z", false},
		{"POST", "x=1&z=", false},
		{"POST", "%78=%31&y=+&z=", true},
		{"POST", "x=1&y=1&z=1", false},
		{"GET", "x=1&y=&z=", false},
	} {
		got := r.Matches(tc.method, "/a", func(name string) (string, bool) { return LastArgument(tc.query, name) })
		if got != tc.want {
			t.Errorf("%s %s: %v", tc.method, tc.query, got)
		}
	}
}

// Patterns and paths of all shapes, compared with the specification.
func TestRulesAgainstSpecification(t *testing.T) {
	pieces := []string{"/", "//", "a", "b", "{x}", "{y}", "{}", "{", "}", ".", "$", "-", "?", "|", "(", ")", "+", "*", "[ab]", "%20", `\`, "^", "@"}
	chars := []string{"/", "a", "b", ".", "-", "%20", "$", "@", "(", "[", "~", "x", "y"}
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(from []string, most int) string {
		var b strings.Builder
		b.WriteByte('/')
		for range random.IntN(most) {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	compared, matched := 0, 0
	for range 8_000 {
		pattern := draw(pieces, 8)
		if _, ok := covered(pattern, ""); !ok {
			continue
		}
		r, err := NewRule(model.MappingRule{Pattern: pattern})
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		for range 5 {
			path := draw(chars, 8)
			want, _ := covered(pattern, path)
			if got := r.covers(path); got != want {
				t.Fatalf("%q on %q: %v, the specification says %v", pattern, path, got, want)
			}
			if got := r.Prefix(); want && !strings.HasPrefix(path, got) {
				t.Fatalf("%q on %q: the prefix is %q", pattern, path, got)
			}
			if compared++; want {
				matched++
			}
		}
	}
	if matched < 300 || compared-matched < 300 {
		t.Errorf("%d of %d match", matched, compared)
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range [][2]string{
		{"/", "/"}, {"/foo/{id}.json$", "/foo/1.json"}, {"/{a}{b}", "/xy"}, {"/(a|b)+", "/ab"}, {"/foo?x={y}", "/foo"}, {"/a{1,3}$", "/a{1,3}"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		r, err := NewRule(model.MappingRule{Pattern: pattern})
		if err != nil {
			return
		}
		path = EscapePath(path)
		got := r.covers(path)
		if got && !strings.HasPrefix(path, r.Prefix()) {
			t.Errorf("%q on %q: the prefix is %q", pattern, path, r.Prefix())
		}
		if r.pieces == nil {
			return // PCRE and Go may differ there; that is for package expr
		}
		if want, ok := covered(pattern, path); ok && got != want {
			t.Errorf("%q on %q: %v, the specification says %v", pattern, path, got, want)
		}
	})
}

func BenchmarkRules(b *testing.B) {
	for name, pattern := range map[string]string{"plain": "/v1/orders", "segments": "/v1/{kind}/orders/{id}", "pattern": "/v1/{kind}.{format}$"} {
		b.Run(name, func(b *testing.B) {
			r, err := NewRule(model.MappingRule{Method: "GET", Pattern: pattern})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r.covers("/v1/europe/orders/4711")
			}
		})
	}
}
