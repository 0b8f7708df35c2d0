package expr

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// FuzzNumber: what Go reads as a decimal number is that number here, too.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1", " -1.5e3 ", "0x1p-2", "0b101", "inf", "-nan", "+-1", "1_0", "0x.p1", "1e999", "0x" + strings.Repeat("f", 400), "0x1p99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseNumber(s)
		want, err := strconv.ParseFloat(s, 64)
		if strings.ContainsAny(s, "xXbB_") {
			return
		}
		if err == nil && (!ok || got != want && !(math.IsNaN(got) && math.IsNaN(want))) {
			t.Errorf("%q: %v, %v, want %v", s, got, ok, want)
		}
		if _, err := strconv.ParseFloat(strings.Trim(s, " \t\n\v\f\r"), 64); ok && err != nil && !math.IsInf(got, 0) && !math.IsNaN(got) {
			t.Errorf("%q is %v", s, got)
		}
	})
}

// FuzzArgument: the ways to decode an argument agree, with each other and with
// net/url where that takes the query.
func FuzzArgument(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=%41%2", "a", "%61=+&a=x", "a=%zz", "&=&a==&;", "b=1&a"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, query, name string) {
		if strings.ContainsAny(query, "?# \r\n") {
			return
		}
		for pair := range strings.SplitSeq(query, "&") {
			k, _, _ := strings.Cut(pair, "=")
			if decodesTo(k, name) != (Unescape(k) == name) {
				t.Errorf("%q is %q: %v", k, name, !(Unescape(k) == name))
			}
		}
		c := ctx("GET", "/?"+query, "")
		var buf []byte
		got := argument(c, name, &buf)
		first, there := c.Query(name)
		if there != (got.kind != absent) || got.kind == text && got.text != first {
			t.Errorf("%q in %q: %q, %v, and %+v", name, query, first, there, got)
		}
		values, err := url.ParseQuery(query)
		if err != nil || strings.Contains(query, ";") || name == "" {
			return
		}
		if want := values[name]; there != (len(want) > 0) || there && first != want[0] {
			t.Errorf("%q in %q: %q, want %q", name, query, first, want)
		}
	})
}

// FuzzCookie: a cookie that net/http reads, too, has the same value there.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{"a=1; b=2", "a=1;a=2", "a", "a=\"x\"", " a=b c; a =d", "b=a=1;\ta=2 "} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, header, name string) {
		c := ctx("GET", "/", "", "Cookie", header)
		got, ok := cookie(c, name)
		if strings.ContainsFunc(header, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			return // no request has them; ctx escapes them
		}
		if ok && !strings.Contains(header, name+"="+got) {
			t.Errorf("%q has no %q=%q", header, name, got)
		}
		parsed, err := http.ParseCookie(header)
		if err != nil || strings.ContainsAny(header, "\" \t") {
			return
		}
		want, has := "", false
		for _, p := range parsed {
			if p.Name == name {
				want, has = p.Value, true
			}
		}
		if has && (got != want || !ok) {
			t.Errorf("%q in %q: %q, want %q", name, header, got, want)
		}
	})
}
