package liquid

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/osteele/liquid/values"
)

// Walk returns the member of v that the names lead to; nil: there is none.
func Walk(v any, names []string) any {
	for _, n := range names {
		switch x := v.(type) {
		case map[string]any:
			v = x[n]
		case Fields:
			v = x.Field(n)
		default:
			return nil
		}
	}
	return v
}

// AppendText appends what a template shows of v; false: it has members.
func AppendText(dst []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return dst, true
	case string:
		return append(dst, v...), true
	case bool:
		return strconv.AppendBool(dst, v), true
	}
	if f, ok := number(v); ok {
		return appendNumber(dst, f), true
	}
	return dst, false
}

// appendNumber writes a number as Lua does: "%.14g".
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e14 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return fmt.Appendf(dst, "%.14g", f)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// result is a number as filters return it: one that the library can compare and
// that shows itself as Lua would.
func result(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1e14 {
		return int(f)
	}
	if text := string(appendNumber(nil, f)); text != fmt.Sprint(f) {
		return text
	}
	return f
}

// wrap makes a value one of the library.
func wrap(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return object{members(v)}
	case Fields:
		return object{v}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = wrap(v[i])
		}
		return list
	}
	if f, ok := number(v); ok {
		return result(f)
	}
	return v
}

// members are those of a map.
type members map[string]any

func (m members) Field(name string) any { return m[name] }

// An object is a value with members as the library asks it.
type object struct{ Fields }

var _ values.Value = object{}

func (o object) Interface() any { return o }
func (o object) Int() int       { return 0 }
func (o object) Equal(v values.Value) bool {
	return string(appendJSON(nil, o)) == string(appendJSON(nil, v.Interface()))
}
func (o object) Less(values.Value) bool     { return false }
func (o object) Test() bool                 { return true }
func (o object) Contains(values.Value) bool { return false }

func (o object) IndexValue(v values.Value) values.Value {
	name, ok := v.Interface().(string)
	if !ok {
		return values.ValueOf(nil)
	}
	return values.ValueOf(wrap(o.Field(name)))
}

func (o object) PropertyValue(v values.Value) values.Value { return o.IndexValue(v) }

// String keeps the library from showing what is no text.
func (o object) String() string { return "" }
