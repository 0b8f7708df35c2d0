package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Describer is a type that gives its own JSON Schema document, for values that
// tags cannot describe. It usually is a json.Unmarshaler as well.
type Describer interface{ JSONSchema() []byte }

// A Constrained is a configuration type whose properties depend on each other.
type Constrained interface{ Constraints() []Constraint }

// members is a JSON object in the order in which it was written.
type members []member

type member struct {
	name  string
	value any
}

func (m *members) add(name string, value any) { *m = append(*m, member{name, value}) }

func (m members) find(name string) (any, bool) {
	i := slices.IndexFunc(m, func(e member) bool { return e.name == name })
	if i < 0 {
		return nil, false
	}
	return m[i].value, true
}

// set replaces the value under name, or adds it.
func (m *members) set(name string, value any) {
	for i := range *m {
		if (*m)[i].name == name {
			(*m)[i].value = value
			return
		}
	}
	m.add(name, value)
}

// MarshalJSON prints the object.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := marshal(e.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// describe is the schema of values of type t; outer are the types around it.
func describe(t reflect.Type, outer []reflect.Type) members {
	if doc, ok := ownSchema(t); ok {
		return doc
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem(), outer)
	case reflect.Struct:
		return describeStruct(t, outer)
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return nil
		}
		doc := members{{"type", "array"}}
		if items := describe(t.Elem(), outer); items != nil {
			doc.add("items", items)
		}
		return doc
	case reflect.Map:
		doc := members{{"type", "object"}}
		if values := describe(t.Elem(), outer); values != nil {
			doc.add("additionalProperties", values)
		}
		return doc
	}
	return members{{"type", typeName(t)}}
}

func ownSchema(t reflect.Type) (members, bool) {
	d, ok := reflect.TypeAssert[Describer](reflect.New(t))
	if !ok {
		return nil, false
	}
	return ordered(d.JSONSchema()), true
}

// ordered reads a JSON object, keeping the order of its members.
func ordered(doc []byte) members {
	order := map[string]int{}
	root, err := parse(doc, order)
	obj, ok := root.(map[string]any)
	if err != nil || !ok {
		panic(fmt.Sprintf("schema: not an object: %s: %v", doc, err))
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(doc, &raw); err != nil {
		panic(fmt.Sprintf("schema: %v", err))
	}
	m := make(members, len(obj))
	for name := range obj {
		m[order["/"+escape(name)]] = member{name, raw[name]}
	}
	return m
}

func describeStruct(t reflect.Type, outer []reflect.Type) members {
	if slices.Contains(outer, t) {
		panic(fmt.Sprintf("schema: %v contains itself", t))
	}
	var own fieldOptions
	doc := members{{"type", "object"}}
	props := members{}
	var required, secret []string
	properties(t, append(slices.Clip(outer), t), func(f reflect.StructField, o fieldOptions, sub members) {
		name := propertyName(f)
		if name == "" {
			own = o
			return
		}
		if !o.elsewhere {
			props.add(name, sub)
		}
		if o.required {
			required = append(required, name)
		}
		if o.secret {
			secret = append(secret, name)
		}
		for _, inner := range o.secrets {
			secret = append(secret, name+"."+inner)
		}
	})
	doc.add("properties", props)
	if required != nil {
		doc.add("required", required)
	}
	if secret != nil {
		doc.add("encrypt_fields", secret)
	}
	doc = append(doc, own.doc...)
	if c, ok := reflect.TypeAssert[Constrained](reflect.New(t)); ok {
		constrain(&doc, c.Constraints())
	}
	return doc
}

// fieldOptions are the parts of a tag that concern the surrounding object.
type fieldOptions struct {
	required, secret bool
	elsewhere        bool     // a constraint describes the property
	secrets          []string // of a nested object
	doc              members  // of the blank field: what holds for the whole object
}

// properties calls yield for each field of t with a JSON name, those of embedded
// structs included, and for a blank field, whose tag concerns t itself.
func properties(t reflect.Type, outer []reflect.Type, yield func(reflect.StructField, fieldOptions, members)) {
	for f := range t.Fields() {
		if f.Anonymous {
			properties(f.Type, outer, yield)
			continue
		}
		if f.Name == "_" {
			o := tag{field: f, typ: reflect.TypeFor[map[string]json.RawMessage]()}
			o.parse(f.Tag.Get("schema"))
			yield(f, fieldOptions{doc: o.doc}, nil)
			continue
		}
		if _, there := f.Tag.Lookup("json"); !there {
			panic(fmt.Sprintf("schema: %v.%s has no json name", t, f.Name))
		}
		if propertyName(f) == "" {
			continue
		}
		o := tag{field: f, typ: f.Type, doc: describe(f.Type, outer)}
		o.parse(f.Tag.Get("schema"))
		if secrets, ok := takeSecrets(&o.doc); ok {
			o.options.secrets = secrets
		}
		if d := f.Tag.Get("doc"); d != "" {
			o.doc.add(meaning, d)
		}
		yield(f, o.options, o.doc)
	}
}

// meaning marks the text of a doc tag in a schema being built. It is for the
// reference; the document that the Admin API serves has none, like APISIX's.
const meaning = "\x00doc"

// takeDocs moves the meanings found in doc, which stands at ptr, to docs.
func takeDocs(doc members, ptr string, docs map[string]string) members {
	out := doc[:0]
	for _, m := range doc {
		if d, ok := m.value.(string); ok && m.name == meaning {
			docs[ptr] = d
			continue
		}
		if sub, ok := m.value.(members); ok {
			m.value = takeDocs(sub, ptr+"/"+escape(m.name), docs)
		}
		out = append(out, m)
	}
	return out
}

// takeSecrets removes encrypt_fields from a nested schema, or from that of the
// items or values of one: they are listed once, at the root, by path.
func takeSecrets(doc *members) (secrets []string, ok bool) {
	for i, m := range *doc {
		switch sub := m.value.(type) {
		case []string:
			if m.name == "encrypt_fields" {
				*doc = slices.Delete(*doc, i, i+1)
				return sub, true
			}
		case members:
			if m.name == "items" || m.name == "additionalProperties" {
				secrets, ok = takeSecrets(&sub)
				(*doc)[i].value = sub
				return secrets, ok
			}
		}
	}
	return nil, false
}

// A tag is one field's options being read.
type tag struct {
	field   reflect.StructField
	typ     reflect.Type
	doc     members
	options fieldOptions
}

func (t *tag) fail(format string, args ...any) {
	panic(fmt.Sprintf("schema: field %s %q: %s", t.field.Name, t.field.Tag, fmt.Sprintf(format, args...)))
}

// parse reads the options of a schema tag, separated by commas. The value of
// pattern or description, and a default that is an object or an array, may
// contain commas and goes on to the end of the tag.
func (t *tag) parse(text string) {
	for text != "" {
		name, _, _ := strings.Cut(text, "=")
		name, _, _ = strings.Cut(name, ",")
		rest := strings.HasSuffix(name, "pattern") || name == "description" ||
			strings.HasPrefix(text, "default=[") || strings.HasPrefix(text, "default={")
		var opt string
		if rest {
			opt, text = text, ""
		} else {
			opt, text, _ = strings.Cut(text, ",")
		}
		key, value, _ := strings.Cut(opt, "=")
		if each, ok := strings.CutPrefix(key, "each."); ok {
			t.each(each, value)
			continue
		}
		t.option(key, value)
	}
}

// each applies an option to the items of an array or the values of a map.
func (t *tag) each(key, value string) {
	under, typ := "items", t.typ
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Map:
		under = "additionalProperties"
	case reflect.Slice:
	default:
		t.fail("each is for slices and maps")
	}
	sub, _ := t.doc.find(under)
	inner, _ := sub.(members)
	it := tag{field: t.field, typ: typ.Elem(), doc: inner}
	it.option(key, value)
	t.doc.set(under, it.doc)
}

func (t *tag) option(key, value string) {
	switch key {
	case "required":
		t.options.required = true
	case "secret":
		t.options.secret = true
	case "elsewhere":
		t.options.elsewhere = true
	case "closed":
		t.doc.set("additionalProperties", false)
	case "unique":
		t.doc.set("uniqueItems", true)
	case "default":
		t.doc.add("default", t.literal(value))
	case "min", "max", "exclusiveMin", "exclusiveMax":
		name := map[string]string{
			"min": "minimum", "max": "maximum", "exclusiveMin": "exclusiveMinimum", "exclusiveMax": "exclusiveMaximum",
		}[key]
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			t.fail("%v", err)
		}
		t.doc.add(name, json.Number(value))
	case "minLen", "maxLen", "minItems", "maxItems", "minProps", "maxProps":
		name := strings.NewReplacer("Len", "Length", "Props", "Properties").Replace(key)
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			t.fail("%v", err)
		}
		t.doc.add(name, n)
	case "enum":
		var values []any
		for v := range strings.SplitSeq(value, "|") {
			values = append(values, t.literal(v))
		}
		t.doc.add("enum", values)
	case "type":
		t.doc.set("type", strings.Split(value, "|"))
	case "pattern", "format", "description":
		t.doc.add(key, value)
	default:
		t.fail("unknown option %q", key)
	}
}

// literal is the value that text stands for in the field's type.
func (t *tag) literal(text string) any {
	typ := t.typ
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.String {
		return text
	}
	if !json.Valid([]byte(text)) {
		t.fail("%q is not JSON", text)
	}
	return json.RawMessage(text)
}

// typeName is the JSON type of the values of a Go type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Pointer:
		return typeName(t.Elem())
	}
	panic(fmt.Sprintf("schema: no JSON type for %v", t))
}
