package acl

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/internal/expr"
)

// Without a parser, text that begins with a bracket is a JSON array, text with
// commas is a list, other text stands for itself.

// hasOne says whether such text has one of the values. It allocates nothing but
// for JSON.
func hasOne(text string, values []string) bool {
	switch {
	case strings.HasPrefix(text, "["):
		return anyIn(values, parseArray(text))
	case strings.Contains(text, ","):
		for item := range strings.SplitSeq(text, ",") {
			if slices.Contains(values, strings.TrimSpace(item)) {
				return true
			}
		}
		return false
	}
	return slices.Contains(values, text)
}

// divide makes such text into values.
func divide(text string) []string {
	switch {
	case strings.HasPrefix(text, "["):
		return parseArray(text)
	case strings.Contains(text, ","):
		items := strings.Split(text, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		return items
	}
	return []string{text}
}

// A parser makes values out of what is known of a caller.
type parser struct {
	text  func(string) []string // nil: text is no value
	array bool                  // an array is its items, also where it is all that was found
}

func newParser(kind, separator string) (p parser, err error) {
	switch kind {
	case "segmented_text":
		if _, err := expr.CompilePattern(separator, false); err != nil {
			return parser{}, err
		}
		sep, err := expr.CompilePattern(`\s*`+separator+`\s*`, false)
		return parser{text: func(text string) []string { return segments(sep, text) }}, err
	case "json":
		return parser{text: parseArray}, nil
	case "table":
		return parser{array: true}, nil
	}
	return parser{text: divide, array: true}, nil
}

// values are those of all that a JSONPath has found.
func (p parser) values(found []json.RawMessage) (all []string) {
	for _, raw := range found {
		var text *string
		var items []json.RawMessage
		switch {
		case json.Unmarshal(raw, &text) == nil && text != nil:
			if p.text != nil {
				all = append(all, p.text(*text)...)
			}
		case p.array || len(found) > 1:
			if json.Unmarshal(raw, &items) == nil {
				all = append(all, stringsOf(items)...)
			}
		}
	}
	return all
}

// segments are what stands between the separators. One that matches nothing at
// all separates characters.
func segments(sep *expr.Pattern, text string) (all []string) {
	for text != "" {
		m, err := sep.Find(text)
		if err != nil || m == nil {
			break
		}
		from, to := m[0], m[1]
		if to == from {
			from = max(from, 1)
			to = from
		}
		all, text = append(all, text[:from]), text[to:]
	}
	return append(all, text)
}

// parseArray are the strings of a JSON array in text.
func parseArray(text string) []string {
	var items []json.RawMessage
	if !strings.HasPrefix(text, "[") || json.Unmarshal([]byte(text), &items) != nil {
		return nil
	}
	return stringsOf(items)
}

func stringsOf(items []json.RawMessage) (all []string) {
	for _, item := range items {
		var s *string
		if json.Unmarshal(item, &s) == nil && s != nil {
			all = append(all, *s)
		}
	}
	return all
}

func anyIn(wanted, values []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(values, w) })
}
