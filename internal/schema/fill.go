package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fill puts defaults into v, in place where possible, and returns it. It also
// settles two liberties of the originals: an empty array stands for an empty
// object and the reverse, and 1.0 is the integer 1. The conditional branches
// that hold take part; v need not be valid.
func fill(s *jsonschema.Schema, v any) any {
	for s.Ref != nil {
		s = s.Ref
	}
	switch x := v.(type) {
	case json.Number:
		if isOnly(s, "integer") {
			v = integer(x)
		}
	case []any:
		if len(x) == 0 && isOnly(s, "object") {
			v = map[string]any{}
		}
	case map[string]any:
		if len(x) == 0 && isOnly(s, "array") {
			v = []any{}
		}
	default:
		return v
	}
	switch x := v.(type) {
	case []any:
		fillItems(s, x)
	case map[string]any:
		fillObject(s, x)
	}
	return fillBranches(s, v)
}

func isOnly(s *jsonschema.Schema, typ string) bool {
	if s.Types == nil {
		return false
	}
	names := s.Types.ToStrings()
	return len(names) == 1 && names[0] == typ
}

// integer is n without fraction and exponent, where that is possible and of use.
func integer(n json.Number) json.Number {
	if !strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return n
	}
	return json.Number(r.Num().String())
}

func fillItems(s *jsonschema.Schema, list []any) {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		for i := range list {
			list[i] = fill(items, list[i])
		}
	case []*jsonschema.Schema:
		for i := range min(len(list), len(items)) {
			list[i] = fill(items[i], list[i])
		}
	}
}

func fillObject(s *jsonschema.Schema, obj map[string]any) {
	for name, v := range obj {
		if sub, ok := s.Properties[name]; ok {
			obj[name] = fill(sub, v)
			continue
		}
		matched := false
		for re, sub := range s.PatternProperties {
			if re.MatchString(name) {
				obj[name], matched = fill(sub, obj[name]), true
			}
		}
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !matched {
			obj[name] = fill(sub, v)
		}
	}
	for name, sub := range s.Properties {
		if _, there := obj[name]; there || sub.Default == nil || slices.Contains(s.Required, name) {
			continue
		}
		obj[name] = fill(sub, clone(*sub.Default))
	}
	for name, dep := range s.Dependencies {
		if sub, ok := dep.(*jsonschema.Schema); ok && obj[name] != nil {
			fill(sub, obj)
		}
	}
}

func fillBranches(s *jsonschema.Schema, v any) any {
	for _, sub := range s.AllOf {
		v = fill(sub, v)
	}
	for _, alternatives := range [...][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		for _, sub := range alternatives {
			if try := fill(sub, clone(v)); sub.Validate(try) == nil {
				v = try
				break
			}
		}
	}
	if s.If == nil {
		return v
	}
	branch := s.Else
	if s.If.Validate(v) == nil {
		branch = s.Then
	}
	if branch != nil {
		v = fill(branch, v)
	}
	return v
}

// clone copies v deeply.
func clone(v any) any {
	switch x := v.(type) {
	case []any:
		c := make([]any, len(x))
		for i := range x {
			c[i] = clone(x[i])
		}
		return c
	case map[string]any:
		c := maps.Clone(x)
		for k := range c {
			c[k] = clone(c[k])
		}
		return c
	}
	return v
}
