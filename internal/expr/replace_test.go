package expr

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	for _, c := range []struct{ pattern, options, with, in, once, all string }{
		{`b`, "jo", "X", "abcb", "aXcb", "aXcX"},
		{`(\w)(\w)`, "", "$2${1}-$$$0", "abcd", "ba-$abcd", "ba-$abdc-$cd"},
		{`(a)|(b)`, "", "[$1$2$3]", "ab", "[a]b", "[a][b]"},
		{`^/api(/.*)`, "jo", "$1", "/api/v1/<N>", "/v1/<N>", "/v1/<N>"},
		{`/w1`, "jo", "/", "/w1/t", "//t", "//t"},
		{`none`, "", "X", "abc", "abc", "abc"},
		{`B.`, "i", "X", "abc", "aX", "aX"},
		{`b.`, "", "X", "ab\n", "ab\n", "ab\n"},
		{`b.`, "s", "X", "ab\n", "aX", "aX"},
		{`^b`, "m", "X", "a\nb", "a\nX", "a\nX"},
		{`b c`, "x", "X", "abc", "aX", "aX"},
		{`b`, "a", "X", "ab", "ab", "ab"},
		{`(a|b)`, "a", "X", "bb", "Xb", "Xb"},
		{`(?<=a)(b)`, "", "[$1]", "abab", "a[b]ab", "a[b]a[b]"},
		{`(?<x>a)(b)(?=c)\1?`, "", "[$2$1]", "abc", "[ba]c", "[ba]c"},
		{`(a)(?'x'b)(?P<y>c)(?=\k{x})\k<x>(?P=y)`, "", "[$3$2$1]", "abcbc", "[cba]", "[cba]"},
		{`b(?=é)`, "", "X", "üabéb", "üaXéb", "üaXéb"},
		{`b(é.)`, "", "[$1]", "\xffébéz\xfe", "\xffé[éz]\xfe", "\xffé[éz]\xfe"},
		{`(?=(b))b`, "", "[$1]", "éb", "é[b]", "é[b]"},
		{`\xff`, "", "X", "a\xffb\xff", "aXb\xff", "aXbX"},
		{``, "", "-", "ab", "-ab", "-a-b-"},
		{`\w\S+$`, "", "*", "hello world\n", "hello *\n", "hello *\n"},
		{`(o|d$)`, "", "<$1>", "world\n", "w<o>rld\n", "w<o>rl<d>\n"},
		// Nothing, right behind a match, is a match (lua-resty-core, re_sub_str_helper).
		{`[\s\S]*$`, "", "*", "ab\n", "*", "**"},
		{`a*`, "", "x", "baac", "xbaac", "xbxxcx"},
		{`(\b|c)`, "", "-", "a cb", "-a cb", "-a- -cb-"},
		{`b\n$`, "", "*", "ab\n", "a*", "a*"},
		{`é$`, "", "*", "aé\n", "a*\n", "a*\n"},
	} {
		p, err := CompileOptions(c.pattern, c.options)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		r, err := CompileReplacement(c.with)
		if err != nil {
			t.Errorf("%s: %v", c.with, err)
			continue
		}
		for _, all := range []bool{false, true} {
			want := c.once
			if all {
				want = c.all
			}
			got, n, err := p.Replace([]byte("> "), c.in, r, all)
			if err != nil || string(got) != "> "+want || (n > 0) != (want != c.in) {
				t.Errorf("%s %s on %q, all %v: %q, %d, %v; want %q", c.pattern, c.with, c.in, all, got, n, err, want)
			}
		}
	}
}

func TestReplacementErrors(t *testing.T) {
	for _, s := range []string{"$", "a$b", "${", "${1", "${a}", "$ 1", "$-1"} {
		if r, err := CompileReplacement(s); err == nil {
			t.Errorf("%q was accepted: %+v", s, r)
		}
	}
	r, err := CompileReplacement("$1234")
	if err != nil || !reflect.DeepEqual(r.parts, []replacementPart{{"", 123}, {"4", -1}}) {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := CompileOptions("a", "jq"); err == nil || err.Error() != `unknown flag "q" (flags "jq")` {
		t.Errorf("an option that there is not: %v", err)
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		pattern, in string
		want        Match
	}{
		{`(a)(x)?`, "ba", Match{1, 2, 1, 2, -1, -1}},
		{`(?=a)(a)(x)?`, "éa", Match{2, 3, 2, 3, -1, -1}},
		{`a`, "b", nil},
		{`(?=a)`, "b", nil},
	} {
		p, err := CompilePattern(c.pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Find(c.in)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v %v", c.pattern, got, err)
		}
	}
	p, err := CompilePattern(`^(?=(a+)+$)a`, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Find(strings.Repeat("a", 60) + "!"); err == nil {
		t.Error("no bound on the time of a match")
	}
}

func TestPatternWords(t *testing.T) {
	for pattern, want := range map[string]string{
		`.+(`: `pcre_compile() failed: missing ) in ".+("`,
		`[a`:  `pcre_compile() failed: missing terminating ] for character class in "[a"`,
		`a\`:  `pcre_compile() failed: \ at end of pattern in "a\"`,
		`*`:   `pcre_compile() failed: nothing to repeat in "*"`,
		`)`:   `pcre_compile() failed: unmatched parentheses in ")"`,
		`\1`:  `pcre_compile() failed: reference to non-existent subpattern in "\1"`,
	} {
		if _, err := CompilePattern(pattern, false); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	n, err := CompileNetworks([]string{"10.0.0.0/8", "127.0.0.1", "2001:db8::/32", "[::1]"})
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "11.0.0.0": false, "127.0.0.1": true, "127.0.0.2": false, "2001:db8::7": true, "::1": true, "::2": false, "": false,
	} {
		if n.Contain(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
		if a, err := netip.ParseAddr(addr); err == nil && n.ContainAddr(a) != want {
			t.Errorf("%v: %v", a, !want)
		}
	}
	if !n.ContainAddr(netip.MustParseAddr("::ffff:10.0.0.1")) {
		t.Error("IPv4 in IPv6 is another address")
	}
	if _, err := CompileNetworks([]string{"10.0.0.1", "10.0.0.0/33"}); err == nil || err.Error() != "invalid ip address: 10.0.0.0/33" {
		t.Error(err)
	}
}
