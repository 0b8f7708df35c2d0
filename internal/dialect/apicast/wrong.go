package apicast

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// decode is json.Unmarshal; an error says where what is of the wrong type, and
// what is expected there.
func decode(raw []byte, v any) error { return worded(json.Unmarshal(raw, v)) }

// worded is an error of encoding/json without Go's types.
func worded(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	kind, _, _ := strings.Cut(wrong.Value, " ")
	got, known := map[string]string{
		"array": "a list", "object": "an object", "string": "a string", "bool": "true or false", "number": "a number",
	}[kind]
	if !known {
		got = wrong.Value
	}
	if wrong.Field == "" {
		return fmt.Errorf("%s is expected, not %s", expected(wrong.Type), got)
	}
	return fmt.Errorf("%s: %s is expected, not %s", wrong.Field, expected(wrong.Type), got)
}

func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}

// wrongType is what a value of the wrong type is answered with: encoding/json adds
// where it is.
func wrongType[T any](value string) error {
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}
