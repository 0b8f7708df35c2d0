package threescale

import (
	"strings"
	"sync/atomic"

	"weir/internal/model"
	"weir/internal/plugin"
)

// A Resource is what a policy's rule concerns: paths by the pattern of a mapping
// rule, and methods. The pattern may be a template.
type Resource struct {
	methods []string
	rule    *Rule // nil: the pattern depends on the request
	text    *Text
	last    atomic.Pointer[Rule] // of what text last rendered to
}

// NewResource compiles the resource of a rule. Without methods all are meant.
func NewResource(pattern, kind string, methods []string) (*Resource, error) {
	if len(methods) == 0 {
		methods = []string{"ANY"}
	}
	text, err := NewText(pattern, kind)
	if err != nil {
		return nil, err
	}
	r := &Resource{methods: methods, text: text}
	if plain, ok := text.Constant(); ok {
		r.rule, err = newPattern(plain)
	}
	return r, err
}

func newPattern(pattern string) (*Rule, error) {
	return NewRule(model.MappingRule{Method: "ANY", Pattern: pattern})
}

// Covers says whether the resource is one of those that the request asks for. The
// error is for a pattern out of a template that is none.
func (r *Resource) Covers(c *plugin.Ctx) (bool, error) {
	if !Methods(r.methods, c.Request.Method) {
		return false, nil
	}
	rule, err := r.pattern(c)
	if err != nil {
		return false, err
	}
	q := Of(c)
	up := q.Upstream
	if up != nil && up.Root != "" && (q.Path == "/" || q.Path == "") {
		return rule.covers(up.Root), nil // a policy has chosen the whole path
	}
	path := EscapePath(q.Path)
	return rule.covers(path) || rule.covers(q.Path) || up != nil && up.Path != "" && rule.covers(up.Path+path), nil
}

func (r *Resource) pattern(c *plugin.Ctx) (*Rule, error) {
	if r.rule != nil {
		return r.rule, nil
	}
	text := r.text.Value(c)
	if last := r.last.Load(); last != nil && last.Pattern == text {
		return last, nil
	}
	rule, err := newPattern(strings.Clone(text))
	if err != nil {
		return nil, err
	}
	r.last.Store(rule)
	return rule, nil
}
