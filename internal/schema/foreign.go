package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Foreign makes a Schema from a document that somebody configured (draft 7, or
// what $schema names), for documents of strangers: nothing in them is taken for a
// reference to a secret. It is checked by Conform. The document must not refer to
// others. An error says what is wrong with it, in the words of APISIX's validator
// where clients know them.
func Foreign(doc []byte) (*Schema, error) {
	order := map[string]int{}
	root, err := parse(doc, order)
	if err != nil {
		return nil, err
	}
	c, err := newChecker(withLuaTypes(root))
	if err != nil {
		return nil, foreignError(root, err)
	}
	return &Schema{doc: doc, root: root, order: order, check: func() *checker { return c }}, nil
}

// Conform checks doc, as Check does, and returns it with the defaults in place of
// what is absent, in a form that everybody reads alike: of properties of the same
// name the last one counts and is the only one. It is a *SyntaxError if doc is not
// JSON; its length is not bounded.
func (s *Schema) Conform(doc []byte) ([]byte, error) {
	if !json.Valid(doc) {
		return nil, malformed(doc)
	}
	p := parser{text: doc, last: true}
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	if v, err = s.conform(v); err != nil {
		return nil, err
	}
	return marshal(v)
}

// withLuaTypes gives the types that APISIX's validator knows beyond JSON Schema
// their meaning: a table is an object or an array, and no JSON is a function.
func withLuaTypes(node any) any {
	switch x := node.(type) {
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = withLuaTypes(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for kw, v := range x {
			switch {
			case kw == "enum" || kw == "const" || kw == "default" || kw == "examples":
				out[kw] = v
			case kw == "type" && v == "table":
				out[kw] = []any{"object", "array"}
			case kw == "type" && v == "function":
				out["allOf"] = []any{false}
			default:
				out[kw] = withLuaTypes(v)
			}
		}
		return out
	}
	return node
}

// foreignError says why a schema is none.
func foreignError(root any, err error) error {
	var invalid *jsonschema.SchemaValidationError
	var first *jsonschema.ValidationError
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &first) {
		return fmt.Errorf("invalid schema: %w", err)
	}
	for len(first.Causes) > 0 {
		first = first.Causes[0]
	}
	at := first.InstanceLocation
	value := lookup(root, at)
	text, isText := value.(string)
	if t, ok := first.ErrorKind.(*kind.Type); ok && isText && len(t.Want) > 0 && (t.Want[0] == "array" || t.Want[0] == "object") && at[len(at)-1] != "type" {
		return errors.New("bad argument #1 to 'ipairs' (table expected, got string)")
	}
	if n := len(at); n > 0 && at[n-1] == "type" && isText {
		return fmt.Errorf("invalid JSON type: %s", text)
	}
	return fmt.Errorf("invalid schema: at /%s: %v", strings.Join(at, "/"), first)
}

// lookup is the value at a location.
func lookup(v any, at []string) any {
	for _, token := range at {
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i := atoi(token)
			if i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}
