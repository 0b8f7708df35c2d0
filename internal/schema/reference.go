package schema

import "strings"

// refPattern matches what IsReference reports.
const refPattern = `^\$([sS][eE][cC][rR][eE][tT]|[eE][nN][vV])://`

// IsReference reports whether s refers to a value kept elsewhere:
// $secret://manager/id/key or $env://NAME, in any case. The check of a string
// is skipped for a reference; what it refers to is not known yet.
func IsReference(s string) bool {
	if s == "" || s[0] != '$' {
		return false
	}
	return hasPrefixFold(s, "$secret://") || hasPrefixFold(s, "$env://")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// refMark is the $comment of a schema that was wrapped by withReferences.
const refMark = "weir: or a reference"

// withReferences is the schema document node changed so that a reference passes
// wherever a string is looked at closely. Original: secret.is_secret_ref of
// APISIX, which skips a value whose schema has no type or the type string.
func withReferences(node any) any {
	obj, ok := node.(map[string]any)
	if !ok {
		return node
	}
	out := make(map[string]any, len(obj))
	for kw, v := range obj {
		switch kw {
		case "properties", "patternProperties", "definitions", "$defs", "dependencies":
			out[kw] = eachReference(v)
		case "items", "allOf", "anyOf", "oneOf":
			if list, ok := v.([]any); ok {
				out[kw] = listReferences(list)
			} else {
				out[kw] = withReferences(v)
			}
		case "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames":
			out[kw] = withReferences(v)
		default:
			out[kw] = v
		}
	}
	if !looksAtStrings(obj) {
		return out
	}
	wrapped := map[string]any{
		"$comment": refMark,
		"if":       map[string]any{"type": "string", "pattern": refPattern},
		"else":     out,
	}
	if d, ok := obj["default"]; ok {
		wrapped["default"] = d
	}
	return wrapped
}

func eachReference(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for name, sub := range m {
		out[name] = withReferences(sub)
	}
	return out
}

func listReferences(list []any) []any {
	out := make([]any, len(list))
	for i, sub := range list {
		out[i] = withReferences(sub)
	}
	return out
}

// looksAtStrings reports whether a schema could refuse some string.
func looksAtStrings(obj map[string]any) bool {
	if t, ok := obj["type"]; ok && t != "string" {
		return false
	}
	for _, kw := range [...]string{
		"minLength", "maxLength", "pattern", "format", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if",
	} {
		if _, ok := obj[kw]; ok {
			return true
		}
	}
	return false
}

// unwrap undoes withReferences for one node.
func unwrap(node any) any {
	if obj, ok := node.(map[string]any); ok && obj["$comment"] == refMark {
		return obj["else"]
	}
	return node
}
