package threescale

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/expr"
	"weir/internal/model"
)

// A Rule is a compiled mapping rule. A Pattern in the configuration of a policy
// (jwt_claim_check, keycloak_role_check, soap) is one, too.
type Rule struct {
	model.MappingRule

	// The path begins with pieces[0], then, for every further piece, a segment and
	// that piece. exact: and ends there. nil: see match.
	pieces []string
	exact  bool
	match  *expr.Pattern
	prefix string // of what match does

	asks []asked
}

// asked is what the query string must hold.
type asked struct {
	name, value string
	present     bool // whatever its value
}

// Immutable. What the pattern of a rule is made of (apicast.md §2.4).
var (
	slashes     = regexp.MustCompile(`//+`)
	placeholder = regexp.MustCompile(`\{.+?\}`)
	anyValue    = regexp.MustCompile(`\{[-\w_]+\}`)
)

// Segment is what a placeholder stands for (apicast.md §2.4).
const Segment = `([\w\-.~%!$&'()*+,;=@:]+)`

// inSegment are the bytes that segment covers. It is immutable.
var inSegment = func() (covered [256]bool) {
	one := regexp.MustCompile(`^` + Segment + `$`)
	for c := range covered {
		covered[c] = one.Match([]byte{byte(c)})
	}
	return covered
}()

// NewRule compiles a mapping rule.
func NewRule(m model.MappingRule) (*Rule, error) {
	r := &Rule{MappingRule: m}
	for _, p := range m.Parameters {
		r.asks = append(r.asks, asked{p.Name, p.Value, anyValue.MatchString(p.Value)})
	}
	pattern, _, _ := strings.Cut(slashes.ReplaceAllLiteralString(m.Pattern, "/"), "?")
	if r.pieces, r.exact = takeApart(pattern); r.pieces != nil {
		return r, nil
	}
	r.prefix = plainPrefix(pattern)
	source := strings.ReplaceAll(placeholder.ReplaceAllLiteralString(pattern, Segment), ".", `\.`)
	var err error
	if r.match, err = expr.CompilePattern("^"+source, false); err != nil {
		return nil, fmt.Errorf("mapping rule %q: %w", m.Pattern, err)
	}
	return r, nil
}

// takeApart splits a pattern at its placeholders; nil: it is a regular expression
// that needs an engine. Where a placeholder ends must be plain: the next piece
// begins with what no segment covers.
func takeApart(pattern string) (pieces []string, exact bool) {
	pattern, exact = strings.CutSuffix(pattern, "$")
	pieces = placeholder.Split(pattern, -1)
	for i, p := range pieces {
		if strings.ContainsAny(p, `{}[]()*+^$|\`) || i > 0 && p == "" && i < len(pieces)-1 || i > 0 && p != "" && inSegment[p[0]] {
			return nil, false
		}
	}
	return pieces, exact
}

// Matches says whether the rule covers a request. path is normalised and escaped
// (Request.EscapedPath), parameter returns the last of a name.
func (r *Rule) Matches(method, path string, parameter func(string) (string, bool)) bool {
	if r.Method != method && r.Method != "ANY" || !r.covers(path) {
		return false
	}
	for i := range r.asks {
		a := &r.asks[i]
		if v, ok := parameter(a.name); !ok || !a.present && v != a.value {
			return false
		}
	}
	return true
}

func (r *Rule) covers(path string) bool {
	if r.pieces == nil {
		ok, err := r.match.Match(path)
		return ok && err == nil
	}
	rest, ok := strings.CutPrefix(path, r.pieces[0])
	if !ok {
		return false
	}
	for _, piece := range r.pieces[1:] {
		n := 0
		for n < len(rest) && inSegment[rest[n]] {
			n++
		}
		if rest, ok = strings.CutPrefix(rest[n:], piece); n == 0 || !ok {
			return false
		}
	}
	return !r.exact || rest == "" || rest == "\n"
}

// Prefix is a text that every path begins with that the rule covers.
func (r *Rule) Prefix() string {
	if r.pieces != nil {
		return r.pieces[0]
	}
	return r.prefix
}

// plainPrefix is what every text begins with that a regular expression, which is
// anchored, matches; a point stands for itself in it.
func plainPrefix(pattern string) string {
	if strings.Contains(pattern, "|") && (strings.ContainsAny(pattern, `\[`) || strings.Contains(pattern, "(?") || alternates(pattern)) {
		return ""
	}
	end := strings.IndexAny(pattern, `{}[]()*+?^$\\`)
	if end > 0 && strings.IndexByte("*+?{}", pattern[end]) >= 0 {
		_, last := utf8.DecodeLastRuneInString(pattern[:end])
		end -= last // it may be there or not
	}
	return pattern[:max(end, 0)]
}

// alternates says that a pattern without escapes, classes and flags has a choice
// outside of parentheses.
func alternates(pattern string) bool {
	depth := 0
	for i := range len(pattern) {
		switch pattern[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// Methods says that a list of methods of a policy's rule covers a method.
func Methods(list []string, method string) bool {
	return slices.Contains(list, "ANY") || slices.Contains(list, method)
}

// MeansMethod says that a list of methods has a method; an empty list means all.
func MeansMethod(list []string, method string) bool {
	return len(list) == 0 || slices.Contains(list, method)
}
