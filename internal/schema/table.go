package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table is the reference table of the properties, nested ones under their path,
// in Markdown. The properties named by except are left out.
func (s *Schema) Table(except ...string) string {
	var b strings.Builder
	b.WriteString("| property | type | required | default | valid values | meaning |\n|---|---|---|---|---|---|\n")
	if root, ok := s.root.(map[string]any); ok {
		s.rows(&b, "", "", root, except...)
	}
	return b.String()
}

func (s *Schema) rows(b *strings.Builder, path, ptr string, node map[string]any, except ...string) {
	props, _ := node["properties"].(map[string]any)
	required, _ := node["required"].([]any)
	for _, name := range s.names(ptr+"/properties", props) {
		sub, ok := props[name].(map[string]any)
		if !ok || slices.Contains(except, name) {
			continue
		}
		mandatory := ""
		if slices.Contains(required, any(name)) {
			mandatory = "yes"
		}
		at := ptr + "/properties/" + escape(name)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", path+name, typeWords(sub), mandatory,
			cell(code(sub, "default")), cell(validWords(sub)), cell(cmp.Or(s.docs[at], text(sub["description"]))))
		s.rows(b, path+name+".", at, sub)
		for _, inner := range [...]string{"items", "additionalProperties"} {
			if elem, ok := sub[inner].(map[string]any); ok {
				mark := map[string]string{"items": "[].", "additionalProperties": ".*."}[inner]
				s.rows(b, path+name+mark, at+"/"+inner, elem)
			}
		}
	}
}

// names are the members of an object of the document in their order there.
func (s *Schema) names(ptr string, obj map[string]any) []string {
	return slices.SortedFunc(maps.Keys(obj), func(a, b string) int {
		return cmp.Compare(s.order[ptr+"/"+escape(a)], s.order[ptr+"/"+escape(b)])
	})
}

func typeWords(node map[string]any) string {
	switch t := node["type"].(type) {
	case string:
		if items, ok := node["items"].(map[string]any); ok && t == "array" && items["type"] != nil {
			return "array of " + typeWords(items)
		}
		return t
	case []any:
		return strings.ReplaceAll(strings.TrimPrefix(wanted(t), "one of "), ", ", " or ")
	}
	return "any"
}

// validWords says what restricts the value, in the keywords' own terms.
func validWords(node map[string]any) string {
	var all []string
	for _, kw := range [...]string{
		"enum", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength",
		"pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	} {
		if c := code(node, kw); c != "" {
			all = append(all, kw+" "+c)
		}
	}
	return strings.Join(all, ", ")
}

func code(node map[string]any, kw string) string {
	v, ok := node[kw]
	if !ok {
		return ""
	}
	s, plain := v.(string)
	if !plain || s == "" {
		b, err := marshal(v)
		if err != nil {
			return ""
		}
		s = string(b)
	}
	return "`" + s + "`"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// cell makes text fit into a cell of a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
