package expr

import (
	"errors"
	"math"

	"weir/internal/document"
	"weir/internal/plugin"
)

// operators is immutable.
var operators = []string{"==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"}

// A rule compares a variable with a constant.
type rule struct {
	v       Var
	not     bool
	compare func(left value) (bool, error)
}

func (r *rule) holds(c *plugin.Ctx) (bool, error) {
	if r.v.text != nil {
		s, ok := r.v.text(c)
		if !ok {
			return r.judge(value{})
		}
		return r.judge(textOf(s))
	}
	b := getBuffer()
	defer putBuffer(b)
	return r.judge(r.v.value(c, b))
}

func (r *rule) judge(left value) (bool, error) {
	ok, err := r.compare(left)
	return ok != r.not && err == nil, err
}

func (r *rule) setOperator(op string, right value) (err error) {
	switch op {
	case "==":
		r.compare = equal(constant(right))
	case "~=":
		r.compare = unequal(constant(right))
	case ">":
		r.compare = ordered(right, func(a, b float64) bool { return a > b })
	case ">=":
		r.compare = ordered(right, func(a, b float64) bool { return a >= b })
	case "<":
		r.compare = ordered(right, func(a, b float64) bool { return a < b })
	case "<=":
		r.compare = ordered(right, func(a, b float64) bool { return a <= b })
	case "~~", "~*":
		r.compare, err = search(right, op == "~*")
	case "in":
		r.compare = in(right)
	case "has":
		r.compare = has(constant(right))
	case "ipmatch":
		r.compare, err = inNetworks(right)
	}
	return err
}

// constant is the right side as it is compared: JSON null is Lua's nil.
func constant(right value) value {
	if right.kind == null {
		return value{}
	}
	return right
}

func equal(right value) func(value) (bool, error) {
	if right.kind != number {
		return func(left value) (bool, error) { return left.equals(right), nil }
	}
	return func(left value) (bool, error) {
		f, ok := left.toNumber()
		return ok && f == right.number, nil
	}
}

func unequal(right value) func(value) (bool, error) {
	is := equal(right)
	return func(left value) (bool, error) {
		ok, err := is(left)
		return !ok, err
	}
}

func ordered(right value, holds func(a, b float64) bool) func(value) (bool, error) {
	limit, ok := right.toNumber()
	if !ok {
		limit = math.NaN() // nothing compares with it
	}
	return func(left value) (bool, error) {
		f, ok := left.toNumber()
		return ok && holds(f, limit), nil
	}
}

// search looks for a pattern. A constant of another type is its own text.
func search(right value, fold bool) (func(value) (bool, error), error) {
	pattern, ok := right.append(nil)
	if !ok || right.kind == null {
		pattern = []byte("nil")
	}
	re, err := CompilePattern(string(pattern), fold)
	if err != nil {
		return nil, err
	}
	return func(left value) (bool, error) {
		switch {
		case left.kind == text:
			return re.Match(left.text)
		case left.kind == absent, left.kind == boolean && left.number == 0:
			return false, nil
		}
		s, _ := left.append(nil)
		return re.Match(string(s))
	}, nil
}

// in says whether the constant, an array, has an element that is the value and
// of its type.
func in(right value) func(value) (bool, error) {
	var others []value
	texts := map[string]struct{}{}
	if right.kind == tree && right.tree.Kind == document.Array {
		for _, item := range right.tree.Items {
			if v := valueOf(item); v.kind == text {
				texts[v.text] = struct{}{}
			} else {
				others = append(others, v)
			}
		}
	}
	return func(left value) (bool, error) {
		if left.kind == text {
			_, ok := texts[left.text]
			return ok, nil
		}
		for i := range others {
			if left.equals(others[i]) {
				return true, nil
			}
		}
		return false, nil
	}
}

// has says whether the variable, an array, has the constant as an element.
func has(right value) func(value) (bool, error) {
	return func(left value) (bool, error) {
		if left.kind != tree {
			return false, nil
		}
		for _, item := range left.tree.Items {
			if valueOf(item).equals(right) {
				return true, nil
			}
		}
		return false, nil
	}
}

var errNoAddress = errors.New("ipmatch needs an address as text")

func inNetworks(right value) (func(value) (bool, error), error) {
	nets, err := compileNetworks(right)
	if err != nil {
		return nil, err
	}
	return func(left value) (bool, error) {
		switch left.kind {
		case absent:
			return false, nil
		case text:
			return nets.contain(left.text), nil
		}
		return false, errNoAddress
	}, nil
}
