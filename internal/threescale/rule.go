package threescale

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weir/internal/model"
)

// A Rule is a compiled mapping rule. A Pattern in the configuration of a policy
// (jwt_claim_check, keycloak_role_check, soap) is one, too.
type Rule struct {
	model.MappingRule
	plain string         // what the path begins with; empty: see match
	exact bool           // it is the whole path
	match *regexp.Regexp // nil: plain says it all
	asks  []asked
}

// asked is what the query string must hold.
type asked struct {
	name, value string
	present     bool // whatever its value
}

var (
	slashes     = regexp.MustCompile(`//+`)
	placeholder = regexp.MustCompile(`\{.*?\}`)
	anyValue    = regexp.MustCompile(`\{[-\w_]+\}`)
)

// Segment is what a placeholder stands for (apicast.md §2.4).
const Segment = `([\w\-.~%!$&'()*+,;=@:]+)`

// NewRule compiles a mapping rule.
func NewRule(m model.MappingRule) (*Rule, error) {
	r := &Rule{MappingRule: m}
	pattern := slashes.ReplaceAllString(m.Pattern, "/")
	pattern, _, _ = strings.Cut(pattern, "?")
	for _, p := range m.Parameters {
		r.asks = append(r.asks, asked{p.Name, p.Value, anyValue.MatchString(p.Value)})
	}
	body, exact := strings.CutSuffix(pattern, "$")
	if !strings.ContainsAny(body, `{}[]()*+^$|\`) {
		r.plain, r.exact = body, exact
		return r, nil
	}
	source := strings.ReplaceAll(placeholder.ReplaceAllLiteralString(pattern, Segment), ".", `\.`)
	match, err := regexp.Compile("^(?:" + source + ")")
	if err != nil {
		return nil, fmt.Errorf("mapping rule %q: %w", m.Pattern, err)
	}
	r.match = match
	return r, nil
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
	switch {
	case r.match != nil:
		return r.match.MatchString(path)
	case r.exact:
		return path == r.plain
	}
	return strings.HasPrefix(path, r.plain)
}

// Methods says that a list of methods of a policy's rule covers a method.
func Methods(list []string, method string) bool {
	return slices.Contains(list, "ANY") || slices.Contains(list, method)
}

// MeansMethod says that a list of methods has a method; an empty list means all.
func MeansMethod(list []string, method string) bool {
	return len(list) == 0 || slices.Contains(list, method)
}
