package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
)

// A Scalar is a string, or a number that is taken as its text.
type Scalar string

// JSONSchema implements Describer.
func (Scalar) JSONSchema() []byte { return []byte(`{"oneOf":[{"type":"string"},{"type":"number"}]}`) }

// UnmarshalJSON implements json.Unmarshaler. The text of a number is Lua's
// (%.14g).
func (s *Scalar) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch x := v.(type) {
	case string:
		*s = Scalar(x)
	case float64:
		*s = Scalar(strconv.FormatFloat(x, 'g', 14, 64))
	default:
		return errors.New("wrong type: expected one of string, number")
	}
	return nil
}

// Headers are header fields by name, with templates or plain text as values.
type Headers map[string]Scalar

// JSONSchema implements Describer.
func (Headers) JSONSchema() []byte { return []byte(HeadersSchema) }

// HeadersSchema is the document of Headers: names without a colon, at least one.
const HeadersSchema = `{"type":"object","minProperties":1,"patternProperties":{"^[^:]+$":{"oneOf":[{"type":"string"},{"type":"number"}]}}}`

// Sorted are the fields in the order of their names.
func (h Headers) Sorted() [][2]string {
	list := make([][2]string, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		list = append(list, [2]string{name, string(h[name])})
	}
	return list
}
