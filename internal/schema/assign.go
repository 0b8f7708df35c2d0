package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// assign stores v, which matches the schema of to's type, in to. Names of
// properties are compared exactly, unlike in encoding/json.
func assign(to reflect.Value, v any) error {
	if v == nil {
		return nil
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Elem(), v)
	}
	if u, ok := reflect.TypeAssert[json.Unmarshaler](to.Addr()); ok {
		text, err := marshal(v)
		if err != nil {
			return err
		}
		return u.UnmarshalJSON(text)
	}
	switch x := v.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(x)
			return nil
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(x)
			return nil
		}
	case json.Number:
		return assignNumber(to, x)
	case []any:
		if to.Kind() == reflect.Slice {
			return assignList(to, x)
		}
	case map[string]any:
		switch to.Kind() {
		case reflect.Map:
			return assignMap(to, x)
		case reflect.Struct:
			return assignStruct(to, x)
		}
	}
	return fmt.Errorf("wrong type: expected %s", typeName(to.Type()))
}

func assignNumber(to reflect.Value, n json.Number) error {
	switch {
	case to.CanInt():
		i, err := n.Int64()
		if err != nil || to.OverflowInt(i) {
			return fmt.Errorf("number %s out of range", n)
		}
		to.SetInt(i)
	case to.CanFloat():
		f, err := n.Float64()
		if err != nil {
			return fmt.Errorf("number %s out of range", n)
		}
		to.SetFloat(f)
	default:
		return fmt.Errorf("wrong type: expected %s", typeName(to.Type()))
	}
	return nil
}

func assignList(to reflect.Value, list []any) error {
	out := reflect.MakeSlice(to.Type(), len(list), len(list))
	for i, item := range list {
		if err := assign(out.Index(i), item); err != nil {
			return fmt.Errorf("failed to validate item %d: %w", i+1, err)
		}
	}
	to.Set(out)
	return nil
}

func assignMap(to reflect.Value, obj map[string]any) error {
	out := reflect.MakeMapWithSize(to.Type(), len(obj))
	for name, v := range obj {
		elem := reflect.New(to.Type().Elem()).Elem()
		if err := assign(elem, v); err != nil {
			return fmt.Errorf("failed to validate %s: %w", name, err)
		}
		out.SetMapIndex(reflect.ValueOf(name).Convert(to.Type().Key()), elem)
	}
	to.Set(out)
	return nil
}

func assignStruct(to reflect.Value, obj map[string]any) error {
	for f, field := range to.Fields() {
		if f.Anonymous {
			if err := assignStruct(field, obj); err != nil {
				return err
			}
			continue
		}
		name := propertyName(f)
		v, there := obj[name]
		if name == "" || !there {
			continue
		}
		if err := assign(field, v); err != nil {
			return fmt.Errorf("property %q validation failed: %w", name, err)
		}
	}
	return nil
}

// propertyName is the JSON name of a field, or empty.
func propertyName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}
