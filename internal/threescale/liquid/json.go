package liquid

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A Lister is Fields that can say the names of its members.
type Lister interface {
	Fields
	Names() []string
}

// Names are those of a map, in order.
func (m members) Names() []string { return slices.Sorted(maps.Keys(m)) }

// appendJSON writes a value as lua-cjson does, members in the order of their names.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return appendString(dst, v)
	case bool:
		dst, _ = AppendText(dst, v)
		return dst
	case object:
		return appendJSON(dst, v.Fields)
	case map[string]any:
		return appendJSON(dst, members(v))
	case Lister:
		return appendObject(dst, v)
	case []any:
		if len(v) == 0 {
			return append(dst, "{}"...)
		}
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, item)
		}
		return append(dst, ']')
	}
	if f, ok := number(v); ok {
		return appendNumber(dst, f)
	}
	return append(dst, "null"...)
}

func appendObject(dst []byte, v Lister) []byte {
	dst = append(dst, '{')
	some := false
	for _, name := range v.Names() {
		member := v.Field(name)
		if member == nil {
			continue
		}
		if some {
			dst = append(dst, ',')
		}
		some = true
		dst = append(appendString(dst, name), ':')
		dst = appendJSON(dst, member)
	}
	return append(dst, '}')
}

// AppendString writes a text as AppendJSON does.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

func appendString(dst []byte, s string) []byte {
	if plainJSON(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has a JSON form
	return append(dst, strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "/", `\/`)...)
}

// plainJSON says that a text needs no escapes.
func plainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '/' {
			return false
		}
	}
	return true
}

// AppendJSON writes a value as of a Scope as JSON, members in the order of their
// names; Fields that cannot list them are null.
func AppendJSON(dst []byte, v any) []byte { return appendJSON(dst, v) }
