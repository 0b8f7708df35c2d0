package expr

import (
	"math"
	"strings"

	"weir/internal/document"
)

// An operation is a node of a filter or script of a JSONPath. Its operator is
// empty for a leaf.
type operation struct {
	operator    string
	left, right *operation

	constant value
	members  []string // of @.a.b, where path is set
	path     bool
	length   bool // @.length
}

// levels are the operators by precedence, the weakest first; longer ones stand
// before their beginnings. It is immutable.
var levels = [][]string{
	{"||", "or"}, {"&&", "and"}, {"==", "!=", "<>", "="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"},
}

// maxParentheses bounds the nesting of an expression.
const maxParentheses = 100

// expression reads operands of a level with its operators between them.
func (p *pathParser) expression(level int) (*operation, bool) {
	if level == len(levels) {
		return p.operand()
	}
	left, ok := p.expression(level + 1)
	for ok {
		operator := p.operator(levels[level])
		if operator == "" {
			return left, true
		}
		var right *operation
		if right, ok = p.expression(level + 1); ok {
			left = &operation{operator: operator, left: left, right: right}
		}
	}
	return nil, false
}

func (p *pathParser) operator(of []string) string {
	p.space()
	for _, o := range of {
		rest := p.text[p.at:]
		if len(rest) < len(o) || !strings.EqualFold(rest[:len(o)], o) {
			continue
		}
		if o == "<" && strings.HasPrefix(rest, "<>") {
			continue // of a weaker level
		}
		p.at += len(o)
		p.space()
		return o
	}
	return ""
}

func (p *pathParser) operand() (op *operation, ok bool) {
	p.space()
	defer p.space()
	if s, ok := p.quoted(); ok {
		return &operation{constant: textOf(s)}, true
	}
	switch {
	case p.take("("):
		if p.depth++; p.depth > maxParentheses {
			return nil, false
		}
		defer func() { p.depth-- }()
		return p.enclosed()
	case p.take("@"):
		return p.member()
	}
	for _, word := range []string{"true", "false"} {
		if rest := p.text[p.at:]; len(rest) >= len(word) && strings.EqualFold(rest[:len(word)], word) {
			p.at += len(word)
			return &operation{constant: booleanOf(word == "true")}, true
		}
	}
	return p.number()
}

func (p *pathParser) number() (*operation, bool) {
	end := p.at
	for end < len(p.text) && (strings.IndexByte("+-", p.text[end]) >= 0 && end == p.at || strings.IndexByte(".xX", p.text[end]) >= 0 || hexDigit(p.text[end]) >= 0) {
		end++
	}
	f, ok := parseNumber(p.text[p.at:end])
	if ok {
		p.at = end
	}
	return &operation{constant: numberOf(f)}, ok
}

// member reads what follows @: .name… or ["name"].
func (p *pathParser) member() (*operation, bool) {
	op := &operation{path: true}
	if p.take("[") {
		p.space()
		name, ok := p.quoted()
		p.space()
		op.members = []string{name}
		return op, ok && p.take("]")
	}
	for p.take(".") {
		name := p.name()
		if name == "" {
			return nil, false
		}
		op.members = append(op.members, name)
	}
	op.length = len(op.members) == 1 && op.members[0] == "length"
	return op, len(op.members) > 0
}

// truth is Lua's: everything but nil and false.
func (v value) truth() bool { return v.kind != absent && (v.kind != boolean || v.number != 0) }

// eval evaluates the operation for one value. What cannot be computed is absent.
func (op *operation) eval(of *document.Value) value {
	switch {
	case op.operator != "":
		return op.combine(op.left.eval(of), of)
	case op.length:
		if n := len(of.Items) + len(of.Members); isList(of) {
			return numberOf(float64(n))
		}
		return value{}
	case op.path:
		for _, name := range op.members {
			of = of.Get(name)
		}
		return valueOf(of)
	}
	return op.constant
}

func (op *operation) combine(a value, of *document.Value) value {
	switch op.operator {
	case "&&", "and":
		return booleanOf(a.truth() && op.right.eval(of).truth())
	case "||", "or":
		return booleanOf(a.truth() || op.right.eval(of).truth())
	}
	b := op.right.eval(of)
	if a.kind == absent || b.kind == absent {
		return value{}
	}
	switch op.operator {
	case "==", "=":
		return booleanOf(a.equals(b.like(a)))
	case "!=", "<>":
		return booleanOf(!a.equals(b.like(a)))
	case "<", "<=", ">", ">=":
		return compareOrder(op.operator, a, b.like(a))
	}
	x, ok := a.toNumber()
	y, also := b.toNumber()
	if !ok || !also {
		return value{}
	}
	return numberOf(calculate(op.operator, x, y))
}

// like converts v to the type of a.
func (v value) like(a value) value {
	switch a.kind {
	case boolean:
		return booleanOf(v.truth())
	case number:
		f, ok := v.toNumber()
		if !ok {
			return value{}
		}
		return numberOf(f)
	}
	s, _ := v.append(nil)
	return textOf(string(s))
}

func compareOrder(operator string, a, b value) value {
	var order int
	switch {
	case a.kind == number && b.kind == number && a.number == a.number && b.number == b.number:
		order = int(math.Copysign(1, a.number-b.number))
		if a.number == b.number {
			order = 0
		}
	case a.kind == text && b.kind == text:
		order = strings.Compare(a.text, b.text)
	default:
		return value{}
	}
	switch operator {
	case "<":
		return booleanOf(order < 0)
	case "<=":
		return booleanOf(order <= 0)
	case ">":
		return booleanOf(order > 0)
	}
	return booleanOf(order >= 0)
}

func calculate(operator string, x, y float64) float64 {
	switch operator {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	}
	return x - math.Floor(x/y)*y // Lua's %
}
