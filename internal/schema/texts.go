package schema

import (
	"encoding/json"
	"reflect"

	"weir/internal/document"
)

// texts describes a type that has nothing but strings of any content, as most
// credentials do. There may be a million of those at a start: one that is written
// plainly is checked and stored in one pass.
type texts struct {
	fields   map[string]int // by name of the property
	required uint64         // a bit for each field
}

// textsOf returns nil if root says anything else of t.
func textsOf(root any, t reflect.Type) *texts {
	obj, _ := root.(map[string]any)
	properties, _ := obj["properties"].(map[string]any)
	if t == nil || t.NumField() > 64 || len(properties) != t.NumField() || !only(obj, "object", "properties", "required", "encrypt_fields", "title") {
		return nil
	}
	x := &texts{fields: map[string]int{}}
	for i := range t.NumField() {
		f := t.Field(i)
		described, _ := properties[propertyName(f)].(map[string]any)
		_, special := reflect.TypeAssert[json.Unmarshaler](reflect.New(f.Type))
		if f.Type.Kind() != reflect.String || special || !only(described, "string") {
			return nil
		}
		x.fields[propertyName(f)] = i
	}
	required, _ := obj["required"].([]any)
	for _, name := range required {
		text, _ := name.(string)
		i, known := x.fields[text]
		if !known {
			return nil
		}
		x.required |= 1 << i
	}
	return x
}

// only says that a schema is of that type and has no other keywords than those.
func only(schema map[string]any, typ string, keywords ...string) bool {
	n := 1
	for _, kw := range keywords {
		if _, ok := schema[kw]; ok {
			n++
		}
	}
	return schema["type"] == typ && len(schema) == n
}

// decode stores doc in to; false: whether it may and how is yet to be found out.
func (x *texts) decode(doc []byte, to reflect.Value) bool {
	if x == nil || len(doc) > MaxSize {
		return false
	}
	var seen uint64
	ok := document.PlainMembers(doc, func(name, value []byte) bool {
		i, known := x.fields[string(name)]
		text, isText := document.PlainText(value)
		if !known || !isText || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
		to.Field(i).SetString(text)
		return true
	})
	return ok && seen&x.required == x.required
}
