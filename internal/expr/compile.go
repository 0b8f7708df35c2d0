package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/document"
	"weir/internal/plugin"
)

// What Compile finds, in the words of lua-resty-expr 1.3.2, which clients of
// the Admin API know. errShape also stands for what makes that library fail
// with a Lua error.
var (
	errMissing  = errors.New("missing argument rule")
	errBrackets = errors.New("rule should be wrapped inside brackets")
	errShort    = errors.New("rule too short")
	errNot      = errors.New("bad 'not' expression")
	errShape    = errors.New("invalid expression")
)

// An Expr is a compiled match expression. It is immutable; any number of
// goroutines may use it.
type Expr struct {
	root group
	body bool
}

// A term is a part of an expression that holds or does not.
type term interface {
	holds(c *plugin.Ctx) (bool, error)
}

// A group combines terms: AND, OR and their negations.
type group struct {
	terms []term
	any   bool // OR
	not   bool
}

// Compile compiles a match expression (lua-resty-expr 1.3.2, as in a route's
// vars): an array of rules [var, op, value], [var, "!", op, value] or [var,
// value] and of groups ["OR", rule, rule …], which may be nested; without a
// word in front all rules must hold. The empty array always matches.
//
// The operators ~~ and ~* take patterns of PCRE. One that is not valid, or that
// needs a feature this gateway does not have, is an error, where the original
// takes it and never matches.
func Compile(raw json.RawMessage) (*Expr, error) {
	doc, err := document.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case doc.Kind == document.Null:
		return nil, errMissing
	case doc.Kind != document.Array:
		return nil, errShape
	case len(doc.Items) == 0:
		return &Expr{}, nil
	}
	if first := doc.Items[0]; !isList(first) {
		word, ok := first.Scalar()
		if !ok {
			return nil, errShape
		}
		if _, logic := groupOf(word); !logic {
			return nil, errBrackets
		}
	}
	e := new(Expr)
	root, err := e.compile(doc)
	if err != nil {
		return nil, err
	}
	e.root = *root.(*group)
	return e, nil
}

// isList says that Lua sees a table.
func isList(v *document.Value) bool { return v.Kind == document.Array || v.Kind == document.Object }

// groupOf is the empty group that a word begins.
func groupOf(word string) (*group, bool) {
	word = strings.ToUpper(word)
	positive, not := strings.CutPrefix(word, "!")
	return &group{any: positive == "OR", not: not}, positive == "OR" || positive == "AND"
}

func (e *Expr) compile(v *document.Value) (term, error) {
	switch {
	case !isList(v):
		return nil, errShape
	case len(v.Items) == 0:
		return nil, errShort
	case isList(v.Items[0]):
		return e.group(&group{}, v.Items)
	}
	word, ok := v.Items[0].Scalar()
	if !ok {
		return nil, errShape
	}
	if g, logic := groupOf(word); logic {
		if len(v.Items) <= 2 {
			return nil, errShort
		}
		return e.group(g, v.Items[1:])
	}
	return e.rule(v.Items)
}

func (e *Expr) group(g *group, items []*document.Value) (term, error) {
	for _, item := range items {
		t, err := e.compile(item)
		if err != nil {
			return nil, err
		}
		g.terms = append(g.terms, t)
	}
	return g, nil
}

// rule compiles [var, op, value] and its relatives. What stands behind three
// items, or four with a negation, does not count.
func (e *Expr) rule(items []*document.Value) (term, error) {
	r := new(rule)
	if len(items) == 4 {
		if items[1].Kind != document.String || items[1].Text != "!" {
			return nil, errNot
		}
		r.not = true
		items = slices.Concat(items[:1], items[2:])
	}
	if items[0].Kind != document.String || len(items) < 2 {
		return nil, errShape
	}
	word, ok := items[1].Scalar()
	if !ok {
		return nil, errShape
	}
	word = strings.ToLower(word)
	right := value{}
	switch known := slices.Contains(operators, word); {
	case len(items) > 2 && !known:
		return nil, fmt.Errorf("invalid operator '%s'", word)
	case len(items) > 2:
		right = valueOf(items[2])
	case !known:
		// The value stands where the operator should. The original has made it
		// lower case by then.
		word, right = "==", textOf(word)
	}
	var err error
	if r.v, err = Variable(items[0].Text); err != nil {
		return nil, err
	}
	e.body = e.body || r.v.body
	return r, r.setOperator(word, right)
}

// Match evaluates the expression. An error says that it has no value: a pattern
// took too long, or an address was expected and something else found.
func (e *Expr) Match(c *plugin.Ctx) (bool, error) {
	if e.root.terms == nil {
		return true, nil
	}
	return e.root.holds(c)
}

// Always says that the expression is empty and matches every request.
func (e *Expr) Always() bool { return e.root.terms == nil }

// ReadsBody says that the request's body may be read. What the expression says
// of the body is only true if it is evaluated before the request goes upstream.
func (e *Expr) ReadsBody() bool { return e.body }

func (g *group) holds(c *plugin.Ctx) (bool, error) {
	for _, t := range g.terms {
		ok, err := t.holds(c)
		if err != nil {
			return false, err
		}
		if ok == g.any {
			return g.any != g.not, nil
		}
	}
	return g.any == g.not, nil
}
