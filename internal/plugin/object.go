package plugin

import (
	"bytes"
	"encoding/json"
)

// An ObjectID is the id of a configuration object, a text or a number in its
// document.
type ObjectID string

// JSONSchema implements schema.Describer.
func (ObjectID) JSONSchema() []byte {
	return []byte(`{"anyOf": [
		{"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9-_.]+$"},
		{"type": "integer", "minimum": 1}]}`)
}

// UnmarshalJSON takes a text or a number.
func (i *ObjectID) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	*i = ObjectID(text)
	return nil
}

// An Object is the text of a JSON object, read in place. The zero Object is none.
type Object []byte

// ParseObject returns b as an Object, or false if it is none.
func ParseObject(b []byte) (Object, bool) {
	if !json.Valid(b) {
		return nil, false
	}
	b = skipSpace(b)
	return Object(b), b[0] == '{'
}

// Member returns the value of the named member as JSON, the last if it repeats;
// nil: there is none.
func (o Object) Member(name string) (value []byte) {
	rest := o[1:]
	for {
		rest = skipSpace(rest)
		switch rest[0] {
		case '}':
			return value
		case ',':
			rest = skipSpace(rest[1:])
		}
		var key, v []byte
		key, rest = nextValue(rest)
		v, rest = nextValue(skipSpace(skipSpace(rest)[1:]))
		if named(key, name) {
			value = v
		}
	}
}

// Text returns the string that value, which is JSON, is; false: it is none. The
// string lives as long as the request.
func (c *Ctx) Text(value []byte) (string, bool) {
	switch {
	case len(value) == 0 || value[0] != '"':
		return "", false
	case bytes.IndexByte(value, '\\') < 0:
		return c.Keep(value[1 : len(value)-1]), true
	}
	var s string
	err := json.Unmarshal(bytes.Clone(value), &s) // so that value itself may be on the stack
	return s, err == nil
}

func named(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == name
	}
	var k string
	return json.Unmarshal(bytes.Clone(key), &k) == nil && k == name
}

// nextValue splits valid JSON after its first value.
func nextValue(b []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case quoted && c != '"':
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return b[:i+1], b[i+1:]
			}
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']' || isSpace(c)):
			return b[:i], b[i:]
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return b[:i+1], b[i+1:]
			}
		}
	}
	return b, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
