// Package rewriteurlcaptures makes another path and arguments out of the parts of a
// path.
package rewriteurlcaptures

import (
	"fmt"
	"regexp"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is rewrite_url_captures.
var Policy = plugin.Define(
	plugin.Meta{Name: "rewrite_url_captures", Doc: "Makes another path and arguments out of the parts of a path."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Transformations []Transformation `json:"transformations" doc:"The first one that matches is applied."`
}

// A Transformation is one rule.
type Transformation struct {
	MatchRule string   `json:"match_rule" schema:"required" doc:"PCRE pattern that is looked for in the path; {name} stands for a segment or a part of one."`
	Template  string   `json:"template" schema:"required" doc:"The new path, and up to two arguments that are set; {name} is what the pattern's was."`
	Methods   []string `json:"methods" doc:"Methods of the requests that are meant; none: all."`
}

var placeholder = regexp.MustCompile(`\{.+?\}`)

// A matcher is a compiled transformation.
type matcher struct {
	pattern  *expr.Pattern
	groups   int
	template []piece
	methods  []string
}

// A piece of a template is text or a group.
type piece struct {
	text  string
	group int // 0: text
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	var matchers []*matcher
	for i := range c.Transformations {
		m, err := c.Transformations[i].compile()
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("transformations[%d]: %w", i, err)
		}
		matchers = append(matchers, m)
	}
	if matchers == nil {
		return plugin.Phases{}, nil
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		r := threescale.Of(c)
		for _, m := range matchers {
			if m.apply(r, c.Request.Method) {
				break
			}
		}
		return nil
	}}, nil
}

func (t *Transformation) compile() (*matcher, error) {
	names := placeholder.FindAllString(t.MatchRule, -1)
	pattern, err := expr.CompilePattern(placeholder.ReplaceAllLiteralString(t.MatchRule, threescale.Segment), false)
	if err != nil {
		return nil, err
	}
	m := &matcher{pattern: pattern, groups: len(names), methods: t.Methods}
	group := map[string]int{}
	for i := len(names) - 1; i >= 0; i-- {
		group[names[i]] = i + 1
	}
	rest := t.Template
	for _, at := range placeholder.FindAllStringIndex(t.Template, -1) {
		from := at[0] - (len(t.Template) - len(rest))
		to := from + at[1] - at[0]
		n, known := group[rest[from:to]]
		if !known {
			continue // it stays as it is
		}
		m.template = append(m.template, piece{text: rest[:from]}, piece{group: n})
		rest = rest[to:]
	}
	m.template = append(m.template, piece{text: rest})
	return m, nil
}

func (m *matcher) apply(r *threescale.Request, method string) bool {
	if !threescale.MeansMethod(m.methods, method) {
		return false
	}
	found, err := m.pattern.Find(r.Path)
	if err != nil || found == nil || len(found)/2-1 != m.groups {
		return false
	}
	var b strings.Builder
	for i := range m.template {
		b.WriteString(m.template[i].text)
		if n := m.template[i].group; n > 0 {
			b.WriteString(found.Group(r.Path, n))
		}
	}
	path, query, _ := strings.Cut(b.String(), "?")
	r.SetPath(path)
	if query != "" {
		set(r, query)
	}
	return true
}

// set sets the arguments of a template, of which there are two at most.
func set(r *threescale.Request, query string) {
	q := threescale.ParseQuery(r.Query)
	one, two, more := strings.Cut(query, "&")
	for i, pair := range [...]string{one, two} {
		if i == 1 && !more {
			break
		}
		name, value, valued := strings.Cut(pair, "=")
		if !valued {
			q.Delete(name)
			continue
		}
		q.Set(name, value)
	}
	r.SetQuery(q.String())
}
