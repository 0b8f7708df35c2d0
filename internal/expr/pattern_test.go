package expr

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern   string
		fold      bool
		backtrack bool // what runs it
		matches   []string
		not       []string
	}{
		{`a`, false, false, []string{"a", "bab"}, []string{"", "A", "b"}},
		{`a`, true, false, []string{"a", "A"}, []string{"b"}},
		{``, false, false, []string{"", "a"}, nil},
		{`^/api/v\d+/[^/]+$`, false, false, []string{"/api/v1/x", "/api/v12/x\n"}, []string{"/api/v/x", "/api/v1/x/y"}},
		{`^(a|b$)`, false, false, []string{"a\n", "b", "b\n"}, []string{"bc", "c"}},
		{`(a$)?c`, false, true, []string{"c"}, []string{"a\n"}},
		{`a$\n`, false, true, []string{"a\n"}, []string{"a", "a\n\n"}},
		{`(a$)+`, false, true, []string{"a", "ba\n"}, []string{"ab"}},
		{`a\Z`, false, true, []string{"a", "a\n"}, []string{"ab"}},
		{`a\z`, false, false, []string{"a"}, []string{"a\n"}},
		{`(?m)^b$`, false, false, []string{"a\nb\nc", "b"}, []string{"ab"}},
		{`(?s)a.b`, false, false, []string{"a\nb"}, []string{"ab"}},
		{`a.b`, false, false, []string{"a\rb"}, []string{"a\nb"}},
		{`[$]`, false, false, []string{"$"}, []string{""}},
		{`\$`, false, false, []string{"$"}, []string{""}},
		{`^(?!.*bot).*$`, true, true, []string{"human"}, []string{"a BOT"}},
		{`(?<=a)b`, false, true, []string{"ab"}, []string{"b"}},
		{`(a+)b\1`, false, true, []string{"aabaa"}, []string{"ab"}},
		{`(?P<x>a)(?P=x)`, false, true, []string{"aa"}, []string{"a"}},
		{`(?P<x>a)b`, false, false, []string{"ab"}, []string{"a"}},
		{`(?<x>a)b`, false, false, []string{"ab"}, []string{"a"}},
		{`^a++b`, false, true, []string{"aab"}, []string{"b"}},
		{`^a++ab`, false, true, nil, []string{"aab"}},
		{`^(?:ab){2}+c`, false, true, []string{"ababc"}, []string{"abc"}},
		{`^[ab]*+b`, false, true, nil, []string{"ab"}},
		{`^x?+x`, false, true, []string{"xx"}, []string{"x"}},
		{`^(?>a*)a`, false, true, nil, []string{"aa"}},
		{`a{,2}`, false, false, []string{"a{,2}"}, []string{"aa"}},
		{`^a{2,}$`, false, false, []string{"aa", "aaa"}, []string{"a"}},
		{`^a{1500}$`, false, true, []string{strings.Repeat("a", 1500)}, []string{"a"}},
		{`\s`, false, false, []string{" ", "\v", "\f", "\r"}, []string{"a", "\x85", "\xa0"}},
		{`^\S+$`, false, false, []string{"a", "é"}, []string{"\v", " "}},
		{`^[\s,]+$`, false, false, []string{"\v ,"}, []string{"a"}},
		{`^[\S]$`, false, false, []string{"a"}, []string{"\v"}},
		{`[[:space:]]`, false, false, []string{"\v"}, []string{"a"}},
		{`^[[:^space:]]$`, false, false, []string{"a"}, []string{"\v"}},
		{`^[[:alpha:]_]+$`, false, false, []string{"a_B"}, []string{"1"}},
		{`^[[:alpha:]](?=b)`, false, true, []string{"ab"}, []string{"1b"}},
		{`\h`, false, false, []string{" ", "\t", "\xa0"}, []string{"\n"}},
		{`^\H$`, false, false, []string{"a", "\n"}, []string{" ", "\xa0"}},
		{`^\v$`, false, false, []string{"\n", "\v", "\x85"}, []string{"\t"}},
		{`^[\V]$`, false, false, []string{"a", "\t"}, []string{"\r", "\x85"}},
		{`^a\Rb$`, false, true, []string{"a\r\nb", "a\nb"}, []string{"ab", "a\n\nb"}},
		{`^\N+$`, false, false, []string{"ab"}, nil},
		{`a\Kb`, false, false, []string{"ab"}, []string{"b"}},
		{`\Qa.b\E+`, false, false, []string{"a.bb"}, []string{"axb"}},
		{`[\Q^-]\E]`, false, false, []string{"^", "-", "]"}, []string{"a"}},
		{`\e\cA\x41\x{42}\t`, false, false, []string{"\x1b\x01AB\t"}, nil},
		{`^\200[\377\1]\0\011$`, false, false, []string{"\x80\xff\x00\t", "\x80\x01\x00\t"}, []string{"\u0080\xff\x00\t"}},
		{`^(a)\11$`, false, false, []string{"a\t"}, []string{"aa1"}},
		{`^(?<x>a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)\11\101$`, false, true, []string{"abcdefghijkkA"}, nil},
		{`^\x$`, false, false, []string{"\x00"}, []string{"x"}},
		{`\w`, false, false, []string{"a", "_"}, []string{"é", "-"}},
		{`^\w(?=\W)`, false, true, []string{"a-", "aé"}, []string{"ab"}},
		{`\bfoo\b`, false, false, []string{"a foo", "foo"}, []string{"foot"}},
		{`\bfoo\b(?!x)`, false, true, []string{"a foo", "foo"}, []string{"foot"}},
		{`]`, false, false, []string{"]"}, []string{"["}},
		{`[]a]`, false, false, []string{"]", "a"}, []string{"b"}},
		{`^[^]a]$`, false, false, []string{"b"}, []string{"]", "a"}},
		{`[[a]`, false, false, []string{"[", "a"}, []string{"b"}},
		{`^[a-z-[aeiou]]$`, false, false, []string{"-]", "[]"}, []string{"b"}},
		{`^(?#comment)a`, false, false, []string{"a"}, []string{"b"}},
		{"(?x) ^ a [ ] b # comment ( [\n c $", false, true, []string{"a bc", "a bc\n"}, []string{"ab c"}},
		{`(?i)a(?-i)b`, false, false, []string{"Ab"}, []string{"aB"}},
		{`\/a\-\_\ `, false, false, []string{"/a-_ "}, nil},
		{`(\d+)(?=%)_?\_`, false, true, nil, []string{"1"}},
		// Bytes, not characters.
		{`^.$`, false, false, []string{"a", "\xff"}, []string{"é"}},
		{`^..$`, false, false, []string{"é"}, []string{"a"}},
		{`^é$`, false, false, []string{"é"}, []string{"É", "e"}},
		{`^É$`, true, false, []string{"É"}, []string{"é"}},
		{`^[é]+$`, false, false, []string{"é", "\xc3"}, []string{"e"}},
		{`^[\x80-\xff]+$`, false, false, []string{"é", "\xff\x80"}, []string{"a"}},
		{`^\xc3\xa9$`, false, false, []string{"é"}, nil},
		{`^[^a]$`, false, false, []string{"\xff"}, []string{"é"}},
		{`^(?=é)..$`, false, true, []string{"é"}, []string{"ü"}},
		{`k`, true, false, []string{"K"}, []string{"\u212a"}},
		{`^(?=k)`, true, true, []string{"K"}, []string{"\u212a"}},
		{"^\x00\xff$", false, false, []string{"\x00\xff"}, []string{"\x00"}},
	} {
		p, err := CompilePattern(c.pattern, c.fold)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if (p.backtrack != nil) != c.backtrack {
			t.Errorf("%q: backtracking is %v", c.pattern, p.backtrack != nil)
		}
		for i, s := range append(c.matches, c.not...) {
			if got, err := p.Match(s); got != (i < len(c.matches)) || err != nil {
				t.Errorf("%q on %q: %v, %v", c.pattern, s, got, err)
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, pattern := range []string{
		`(`, `)`, `[a`, `*`, `a**`, `\`, `(?R)`, `(?1)`, `(*COMMIT)a`, `[b-a]`, `\x{100}`, `(?<n`, `(?z)`, `a{2}{3}+?+`, `[[:nope:]]`, `\1`, `\400`, `[\777]`,
	} {
		if p, err := CompilePattern(pattern, false); err == nil {
			t.Errorf("%q was accepted: %+v", pattern, p)
		}
	}
}

// A pattern that would take forever is an error of the evaluation.
func TestPatternTime(t *testing.T) {
	t.Cleanup(regexp2.StopTimeoutClock)
	c := ctx("GET", "/"+strings.Repeat("a", 64), "")
	for _, raw := range []string{`[["uri","~~","^/(?=a)(a+)+\\d$"]]`, `[["uri","!","~~","^/(?=a)(a+)+\\d$"]]`} {
		if ok, err := match(t, raw, c); ok || err == nil {
			t.Errorf("%s: %v, %v", raw, ok, err)
		}
	}
}

// Both engines mean the same where both know the pattern.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{`^a.*[b-d]$`, `\s\h\v[^\S]`, `(é|\xe9)+`, `\Qa\E{2}`, `(?i)k`, `[[:alpha:]\]]`, `a$|b\z`, `\cA\x{7f}`} {
		f.Add(s, "a bé\n", false)
	}
	f.Fuzz(func(t *testing.T, pattern, s string, fold bool) {
		if len(pattern) > 40 || len(s) > 40 || strings.Contains(pattern, `\p`) || strings.Contains(pattern, `\P`) {
			return
		}
		p, err := CompilePattern(pattern, fold)
		if err != nil {
			return
		}
		got, err := p.Match(s)
		if p.linear == nil || err != nil {
			return
		}
		options := regexp2.RegexOptions(regexp2.RE2)
		if fold {
			options |= regexp2.IgnoreCase
		}
		tr := translator{in: pattern, backtrack: true, names: map[string]int{}}
		re, err := regexp2.Compile(tr.translate(), options)
		if err != nil {
			return
		}
		other := Pattern{backtrack: re}
		re.MatchTimeout = patternTime
		if want, err := other.Match(s); err == nil && want != got {
			t.Errorf("%q on %q: linear %v, backtracking %v", pattern, s, got, want)
		}
	})
}
