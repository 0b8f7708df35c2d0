// Package document reads, edits and writes JSON documents that are data to the
// gateway: stored objects. The order of members, the digits of numbers and the
// characters of strings stay as they were written.
package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Kind is a JSON type.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String is the type's name in messages, for instance "object".
func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "string", "array", "object"}[k]
}

// A Value is one JSON value. A nil *Value is a missing one.
type Value struct {
	Kind    Kind
	Text    string // of a string its characters, of a number or boolean its literal
	Items   []*Value
	Members []Member
}

// A Member is one name of an object with its value.
type Member struct {
	Name  string
	Value *Value
}

// NewObject returns an object without members.
func NewObject() *Value { return &Value{Kind: Object} }

// NewString returns a string.
func NewString(s string) *Value { return &Value{Kind: String, Text: s} }

// NewInt returns a number.
func NewInt(n int64) *Value { return &Value{Kind: Number, Text: strconv.FormatInt(n, 10)} }

// Is reports whether v is there and of kind k.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// Get returns the member of an object, or nil.
func (v *Value) Get(name string) *Value {
	if i := v.find(name); i >= 0 {
		return v.Members[i].Value
	}
	return nil
}

// Set makes a member of an object have a value. A new one comes last.
func (v *Value) Set(name string, value *Value) {
	if i := v.find(name); i >= 0 {
		v.Members[i].Value = value
		return
	}
	v.Members = append(v.Members, Member{name, value})
}

// SetFirst is Set, but a new member comes first.
func (v *Value) SetFirst(name string, value *Value) {
	if i := v.find(name); i >= 0 {
		v.Members[i].Value = value
		return
	}
	v.Members = append([]Member{{name, value}}, v.Members...)
}

// Delete removes a member of an object, if it is there.
func (v *Value) Delete(name string) {
	if i := v.find(name); i >= 0 {
		v.Members = append(v.Members[:i], v.Members[i+1:]...)
	}
}

// Scalar is the text of a string or number, and whether v is one of them:
// APISIX takes ids in both forms.
func (v *Value) Scalar() (string, bool) {
	if v.Is(String) || v.Is(Number) {
		return v.Text, true
	}
	return "", false
}

func (v *Value) find(name string) int {
	if !v.Is(Object) {
		return -1
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return i
		}
	}
	return -1
}

// Append appends the value's JSON text, without spaces.
func (v *Value) Append(dst []byte) []byte {
	switch v.Kind {
	case Null:
		return append(dst, "null"...)
	case String:
		return appendString(dst, v.Text)
	case Array:
		dst = append(dst, '[')
		for i, item := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i, m := range v.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, m.Name), ':')
			dst = m.Value.Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.Text...)
}

// String is the value's JSON text.
func (v *Value) String() string { return string(v.Append(nil)) }

// AppendText appends s as a JSON string. Bytes that are not UTF-8 are replaced
// (U+FFFD), so that every reader takes the text.
func AppendText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return appendString(dst, s)
}

// appendString escapes what RFC 8259 section 7 demands and nothing else.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// EachString replaces every string of v, at any depth, by what edit returns.
// Names of members stay.
func (v *Value) EachString(edit func(string) string) {
	switch v.Kind {
	case String:
		v.Text = edit(v.Text)
	case Array:
		for _, item := range v.Items {
			item.EachString(edit)
		}
	case Object:
		for _, m := range v.Members {
			m.Value.EachString(edit)
		}
	}
}
