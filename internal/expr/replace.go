package expr

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
)

// CompileOptions compiles a pattern with the options of ngx.re: i, m, s, x and a
// as in PCRE; d, D, j, J, o, u and U are taken and change nothing.
func CompileOptions(pattern, options string) (*Pattern, error) {
	inline, fold := "", false
	for _, o := range options {
		switch o {
		case 'i':
			fold = true
		case 'm', 's', 'x':
			inline += string(o)
		case 'a':
			pattern = `\A(?:` + pattern + ")"
		case 'd', 'D', 'j', 'J', 'o', 'u', 'U':
		default:
			return nil, fmt.Errorf("unknown flag \"%c\" (flags %q)", o, options)
		}
	}
	if inline != "" {
		pattern = "(?" + inline + ")" + pattern
	}
	p, err := CompilePattern(pattern, fold)
	if err == nil && p.linear != nil && matchesNothing(p.linear.String()) {
		if re, err := compileBacktracking(pattern, fold); err == nil {
			p.every = &Pattern{backtrack: re}
		}
	}
	return p, err
}

// matchesNothing says that a pattern of package regexp can match no bytes at all.
// Such a match right behind another is one in PCRE, but not for that package.
func matchesNothing(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && canBeEmpty(tree)
}

func canBeEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpNoMatch, syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return canBeEmpty(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || canBeEmpty(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !canBeEmpty(sub) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, canBeEmpty)
	}
	return true
}

// A Match is where a pattern matched: the start and the end in bytes of the whole
// and of every group, -1 for a group that took no part.
type Match []int

// Group returns what the group matched in s, the text that was searched; 0 is the
// whole match. It is empty for a group that there is not.
func (m Match) Group(s string, n int) string {
	if 2*n+1 >= len(m) || m[2*n] < 0 {
		return ""
	}
	return s[m[2*n]:m[2*n+1]]
}

// Find returns the first match in s; nil: there is none. The error says that it
// took too long.
func (p *Pattern) Find(s string) (Match, error) {
	if p.linear != nil && isASCII(s) {
		m := p.linear.FindStringSubmatchIndex(s)
		p.settleEnd(m, s)
		return m, nil
	}
	found, err := p.find(s, 1)
	if len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// find returns up to n matches; below 0, all.
func (p *Pattern) find(s string, n int) ([]Match, error) {
	if p.every != nil && n != 1 {
		return p.every.find(s, n)
	}
	subject := s
	if !isASCII(s) {
		subject = string(encode(nil, s))
	}
	if p.backtrack != nil {
		return p.walk(subject, n)
	}
	var all []Match
	for _, m := range p.linear.FindAllStringSubmatchIndex(subject, n) {
		p.settleEnd(m, subject)
		all = append(all, m)
	}
	decodeAll(all, s, subject)
	return all, nil
}

// settleEnd takes a line feed at the end of s out of a match that has it only
// because that is how linear understands "$".
func (p *Pattern) settleEnd(m Match, s string) {
	if p.strict == nil || m == nil || m[1] < len(s) || !strings.HasSuffix(s, "\n") {
		return
	}
	if own := p.strict.FindStringIndex(s[m[0]:]); own != nil && own[0] == 0 {
		return
	}
	for i := range m {
		if m[i] == len(s) {
			m[i]--
		}
	}
}

// walk finds with the backtracking engine, which counts in characters: they are
// the bytes of the text.
func (p *Pattern) walk(subject string, n int) ([]Match, error) {
	var all []Match
	m, err := p.backtrack.FindStringMatch(subject)
	for ; m != nil && err == nil && len(all) != n; m, err = p.backtrack.FindNextMatch(m) {
		all = append(all, bounds(m))
	}
	return all, err
}

func bounds(m *regexp2.Match) Match {
	var out Match
	for _, g := range m.Groups() {
		if len(g.Captures) == 0 {
			out = append(out, -1, -1)
			continue
		}
		out = append(out, g.Index, g.Index+g.Length)
	}
	return out
}

// encode appends s as it is matched.
func encode(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < 0x80 {
			dst = append(dst, s[i])
		} else {
			dst = append(dst, string(highByte(s[i]))...)
		}
	}
	return dst
}

// decodeAll makes positions in the encoded text positions in s.
func decodeAll(all []Match, s, encoded string) {
	if len(s) == len(encoded) {
		return
	}
	at := make([]int, len(encoded)+1)
	i := 0
	for pos := range encoded {
		at[pos] = i
		i++
	}
	at[len(encoded)] = i
	for _, m := range all {
		for k := range m {
			if m[k] >= 0 {
				m[k] = at[m[k]]
			}
		}
	}
}

// A Replacement is the text that takes a match's place. It is immutable.
type Replacement struct{ parts []replacementPart }

type replacementPart struct {
	literal string // before the group
	group   int    // -1: none
}

var errReplacement = errors.New("failed to compile the replacement template")

// CompileReplacement compiles the template of ngx.re.sub: $n and ${n} are groups,
// $$ is a dollar sign. Another use of "$" is an error.
func CompileReplacement(text string) (*Replacement, error) {
	r := new(Replacement)
	literal := ""
	for {
		before, after, found := strings.Cut(text, "$")
		literal += before
		if !found {
			break
		}
		if rest, ok := strings.CutPrefix(after, "$"); ok {
			literal, text = literal+"$", rest
			continue
		}
		rest, braced := strings.CutPrefix(after, "{")
		end := 0
		for end < len(rest) && end < 3 && '0' <= rest[end] && rest[end] <= '9' {
			end++
		}
		if end == 0 || braced && !strings.HasPrefix(rest[end:], "}") {
			return nil, errReplacement
		}
		group := 0
		for _, digit := range rest[:end] {
			group = 10*group + int(digit-'0')
		}
		r.parts = append(r.parts, replacementPart{literal, group})
		literal, text = "", rest[end:]
		if braced {
			text = text[1:]
		}
	}
	r.parts = append(r.parts, replacementPart{literal, -1})
	return r, nil
}

// Append appends the text for a match in s.
func (r *Replacement) Append(dst []byte, s string, m Match) []byte {
	for i := range r.parts {
		p := &r.parts[i]
		dst = append(dst, p.literal...)
		if p.group >= 0 {
			dst = append(dst, m.Group(s, p.group)...)
		}
	}
	return dst
}

// Replace appends s to dst, the first match or all of them replaced, and says how
// many there were. The error says that matching took too long.
func (p *Pattern) Replace(dst []byte, s string, with *Replacement, all bool) (out []byte, n int, err error) {
	limit := 1
	if all {
		limit = -1
	}
	found, err := p.find(s, limit)
	if err != nil {
		return dst, 0, err
	}
	from := 0
	for _, m := range found {
		dst = append(dst, s[from:m[0]]...)
		dst = with.Append(dst, s, m)
		from = m[1]
	}
	return append(dst, s[from:]...), len(found), nil
}
