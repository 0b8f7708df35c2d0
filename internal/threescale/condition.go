package threescale

import (
	"fmt"
	"sync/atomic"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale/liquid"
)

// A Condition combines operations (apicast.md §5.1).
type Condition struct {
	Operations []Operation `json:"operations" doc:"What is compared."`
	CombineOp  string      `json:"combine_op" schema:"default=and,enum=and|or" doc:"Whether all or one of them must hold."`
}

// An Operation compares two texts.
type Operation struct {
	Left      schema.Scalar `json:"left" doc:"Left operand."`
	LeftType  string        `json:"left_type" schema:"default=plain,enum=plain|liquid" doc:"How the left operand is evaluated."`
	Op        string        `json:"op" schema:"required,enum===|!=|matches" doc:"The comparison; matches looks for a PCRE pattern."`
	Right     schema.Scalar `json:"right" doc:"Right operand."`
	RightType string        `json:"right_type" schema:"default=plain,enum=plain|liquid" doc:"How the right operand is evaluated."`

	// Of is the left operand instead of Left, for policies that compare a part of the
	// request; nil: Left.
	Of func(*plugin.Ctx) string `json:"-"`
}

// A Test is a compiled condition. The zero Test always holds.
type Test struct {
	terms []term
	any   bool
	never bool
}

// A term is a compiled operation: of two texts, or one and a pattern.
type term struct {
	left, right *Text
	of          func(*plugin.Ctx) string // instead of left
	not         bool
	pattern     *expr.Pattern // instead of right
	last        *atomic.Pointer[lastPattern]
	fixed       bool // the outcome is known: holds
	holds       bool
}

// lastPattern is what the last pattern out of a template compiled to.
type lastPattern struct {
	source  string
	pattern *expr.Pattern // nil: it does not
}

// Compile compiles the condition; a nil one always holds.
func (k *Condition) Compile() (Test, error) {
	if k == nil || k.Operations == nil {
		return Test{}, nil
	}
	return Combine(k.CombineOp, k.Operations)
}

// Combine compiles operations of which all ("and", or empty) or one ("or") must
// hold.
func Combine(op string, operations []Operation) (Test, error) { return CombineIn(nil, op, operations) }

// CombineIn is Combine with other names in templates than those of ScopeOf; nil:
// with those.
func CombineIn(scope func(*plugin.Ctx) liquid.Scope, op string, operations []Operation) (Test, error) {
	return combine(op, operations, func(value, kind string) (*Text, error) { return NewTextIn(scope, value, kind) })
}

// CombineOf is Combine with the names of a vocabulary in templates.
func CombineOf(names *Vocabulary, op string, operations []Operation) (Test, error) {
	return combine(op, operations, func(value, kind string) (*Text, error) { return NewTextOf(names, value, kind) })
}

func combine(op string, operations []Operation, text func(value, kind string) (*Text, error)) (Test, error) {
	t := Test{any: op == "or"}
	if op != "" && op != "and" && op != "or" {
		return t, fmt.Errorf("unsupported combine_op %q", op)
	}
	for i := range operations {
		m, err := operations[i].compile(text)
		if err != nil {
			return Test{}, fmt.Errorf("operations[%d]: %w", i, err)
		}
		if m.fixed && m.holds == t.any {
			return Test{never: !m.holds}, nil // it decides
		}
		if !m.fixed {
			t.terms = append(t.terms, m)
		}
	}
	if len(t.terms) == 0 {
		return Test{never: t.any}, nil
	}
	return t, nil
}

func (o *Operation) compile(text func(value, kind string) (*Text, error)) (term, error) {
	m := term{of: o.Of}
	var err error
	if m.left, err = text(string(o.Left), o.LeftType); err != nil {
		return m, err
	}
	if m.right, err = text(string(o.Right), o.RightType); err != nil {
		return m, err
	}
	right, constant := m.right.Constant()
	switch o.Op {
	case "==":
	case "!=":
		m.not = true
	case "matches":
		if !constant {
			m.last = new(atomic.Pointer[lastPattern])
			return m, nil
		}
		if m.pattern, err = expr.CompilePattern(right, false); err != nil {
			return m, err
		}
	default:
		return m, fmt.Errorf("unsupported operation %q", o.Op)
	}
	if _, ok := m.left.Constant(); ok && constant && m.of == nil {
		m.fixed, m.holds = true, m.eval(nil)
	}
	return m, nil
}

// Holds says whether the condition holds for a request.
func (t *Test) Holds(c *plugin.Ctx) bool {
	for i := range t.terms {
		if t.terms[i].eval(c) == t.any {
			return t.any
		}
	}
	return !t.any && !t.never
}

// Always says that the condition holds for every request, Never for none.
func (t *Test) Always() bool { return t.terms == nil && !t.never }

// Never says that the condition holds for no request.
func (t *Test) Never() bool { return t.never }

func (m *term) eval(c *plugin.Ctx) bool {
	left := ""
	if m.of != nil {
		left = m.of(c)
	} else {
		left = m.left.Value(c)
	}
	switch {
	case m.pattern != nil:
		return matches(m.pattern, left)
	case m.last != nil:
		return matches(m.compiled(m.right.Value(c)), left)
	}
	return (left == m.right.Value(c)) != m.not
}

// matches takes a match that does not end in time for none, as PCRE's limits do.
func matches(p *expr.Pattern, s string) bool {
	if p == nil {
		return false
	}
	ok, err := p.Match(s)
	return ok && err == nil
}

// compiled is a pattern that a template made; nil: it is none.
func (m *term) compiled(source string) *expr.Pattern {
	if l := m.last.Load(); l != nil && l.source == source {
		return l.pattern
	}
	source = string([]byte(source))
	p, err := expr.CompilePattern(source, false)
	if err != nil {
		p = nil
	}
	m.last.Store(&lastPattern{source, p})
	return p
}
