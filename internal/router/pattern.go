package router

import (
	"regexp"
	"strconv"
	"strings"
)

// A Param is a piece of the path that a pattern names. The name of a "*"
// without one is ":ext".
type Param struct{ Name, Value string }

const unnamed = ":ext"

// A pattern is a path pattern, taken apart as lua-resty-radixtree 2.9.2 does.
//
// Without "*" (and ":", where parameters are on) it is exact. Otherwise what
// stands before the first of them (":" goes before "*") is a prefix, and the
// rest restricts it only if some segment starts with "*", which stands for any
// text, or with ":", which stands for the text of one segment. So "/a*/b" is
// the prefix "/a".
type pattern struct {
	prefix string // what the path is or starts with
	exact  bool
	check  *check // nil: nothing more to check
}

// A check compares a path with the whole of a pattern.
type check struct {
	from   int            // where the first segment starts that the prefix does not settle
	parts  []segment      // the segments from there on
	slash  bool           // whether the last one is followed by a slash
	re     *regexp.Regexp // instead of parts, where they are not simple
	broken bool           // nothing matches
}

// A segment is what stands between two slashes of a pattern.
type segment struct {
	kind byte   // ':', '*' or literal
	text string // the name, or what is literal
}

const literal = 0

func parsePattern(path string, params bool) pattern {
	cut := strings.IndexByte(path, '*')
	if i := strings.IndexByte(path, ':'); params && i >= 0 {
		cut = i
	}
	switch {
	case cut < 0:
		return pattern{prefix: path, exact: true}
	case path[cut] == '*' && cut == len(path)-1:
		return pattern{prefix: path[:cut]}
	}
	return pattern{prefix: path[:cut], check: newCheck(path, cut)}
}

// newCheck returns nil if nothing restricts the path but the prefix before cut.
func newCheck(path string, cut int) *check {
	trimmed := strings.TrimRight(path, "/")
	c := &check{slash: len(trimmed) < len(path)}
	restricts, simple, at := false, true, 0
	for _, s := range strings.Split(trimmed, "/") {
		p := parseSegment(s)
		at += len(s) + 1
		if p.kind == literal && at <= cut && c.parts == nil {
			c.from = at
			continue
		}
		if n := len(c.parts); n > 0 && c.parts[n-1].kind == '*' {
			simple = false
		}
		restricts = restricts || p.kind != literal
		simple = simple && (p.kind != literal || regexp.QuoteMeta(s) == s)
		c.parts = append(c.parts, p)
	}
	if !restricts {
		return nil
	}
	if last := c.parts[len(c.parts)-1]; !simple || last.kind == '*' && c.slash {
		c.compile(path[:c.from])
	}
	return c
}

func parseSegment(s string) segment {
	switch {
	case strings.HasPrefix(s, ":"):
		return segment{':', s[1:]}
	case s == "*":
		return segment{'*', unnamed}
	case strings.HasPrefix(s, "*"):
		return segment{'*', s[1:]}
	}
	return segment{literal, s}
}

// compile makes the expression. As in the original, literal segments are
// expressions themselves, so that "/*/a." also matches "/x/ab"; those that make
// no valid expression are taken as they are written.
func (c *check) compile(before string) {
	for _, quote := range []func(string) string{func(s string) string { return s }, regexp.QuoteMeta} {
		var b strings.Builder
		b.WriteString("^(?:" + regexp.QuoteMeta(before))
		for i, p := range c.parts {
			if i > 0 {
				b.WriteByte('/')
			}
			switch group := "(?P<" + groupName(i) + ">"; p.kind {
			case ':':
				b.WriteString(group + "[^/]+)")
			case '*':
				b.WriteString(group + "(?s:.*))")
			default:
				b.WriteString(quote(p.text))
			}
		}
		if c.slash {
			b.WriteByte('/')
		}
		b.WriteString(")$")
		re, err := regexp.Compile(b.String())
		if err == nil {
			c.re = re
			return
		}
	}
	c.broken = true
}

func groupName(part int) string { return "p" + strconv.Itoa(part) }

// matches reports whether path, which starts with the pattern's prefix, matches
// the rest as well.
func (c *check) matches(path string) bool {
	switch {
	case c.broken:
		return false
	case c.re != nil:
		return c.re.MatchString(path)
	}
	_, ok := c.walk(path, nil, false)
	return ok
}

// params appends the named pieces of a path that matches.
func (c *check) params(path string, dst []Param) []Param {
	if c.re == nil {
		dst, _ = c.walk(path, dst, true)
		return dst
	}
	at := c.re.FindStringSubmatchIndex(path)
	for i, p := range c.parts {
		if p.kind == literal {
			continue
		}
		if g := 2 * c.re.SubexpIndex(groupName(i)); at[g] >= 0 {
			dst = append(dst, Param{p.text, path[at[g]:at[g+1]]})
		}
	}
	return dst
}

func (c *check) walk(path string, dst []Param, collect bool) ([]Param, bool) {
	rest := path[c.from:]
	for i, p := range c.parts {
		if i > 0 {
			if rest == "" || rest[0] != '/' {
				return dst, false
			}
			rest = rest[1:]
		}
		n := len(p.text)
		switch p.kind {
		case ':':
			if n = strings.IndexByte(rest, '/'); n < 0 {
				n = len(rest)
			}
			if n == 0 {
				return dst, false
			}
		case '*':
			n = len(rest)
		default:
			if !strings.HasPrefix(rest, p.text) {
				return dst, false
			}
		}
		if collect && p.kind != literal {
			dst = append(dst, Param{p.text, rest[:n]})
		}
		rest = rest[n:]
	}
	if c.slash {
		return dst, rest == "/"
	}
	return dst, rest == ""
}
