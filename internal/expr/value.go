package expr

import (
	"math"
	"strconv"
	"strings"

	"weir/internal/document"
)

// A kind is the type of a value. The language compares strictly: a number never
// equals a text, unless an operator says that it converts.
type kind uint8

const (
	absent  kind = iota // Lua's nil; also what JSON null becomes on the right side
	null                // JSON null inside a request's body
	boolean             // 1 or 0
	number
	text
	tree // an array or object
)

// A value is what a variable holds or an expression compares with.
type value struct {
	kind   kind
	number float64         // of a number or boolean
	text   string          // of a text; perhaps in memory that is used again soon
	tree   *document.Value // of a tree
}

func textOf(s string) value { return value{kind: text, text: s} }

func numberOf(f float64) value { return value{kind: number, number: f} }

func booleanOf(b bool) value {
	if b {
		return value{kind: boolean, number: 1}
	}
	return value{kind: boolean}
}

// valueOf is a JSON value; nil is absent.
func valueOf(v *document.Value) value {
	if v == nil {
		return value{}
	}
	switch v.Kind {
	case document.Null:
		return value{kind: null}
	case document.Bool:
		return booleanOf(v.Text == "true")
	case document.Number:
		f, _ := strconv.ParseFloat(v.Text, 64) // out of range: an infinity, as in cjson
		return numberOf(f)
	case document.String:
		return textOf(v.Text)
	}
	return value{kind: tree, tree: v}
}

// equals is Lua's ==. Two trees are never the same one.
func (v value) equals(w value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case text:
		return v.text == w.text
	case number, boolean:
		return v.number == w.number
	case tree:
		return false
	}
	return true
}

// toNumber is Lua's tonumber.
func (v value) toNumber() (float64, bool) {
	switch v.kind {
	case number:
		return v.number, true
	case text:
		return parseNumber(v.text)
	}
	return 0, false
}

// parseNumber reads a number as LuaJIT's tonumber does: decimal, hexadecimal or
// binary, an infinity or not a number, with space around.
func parseNumber(s string) (float64, bool) {
	s = strings.Trim(s, " \t\n\v\f\r")
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	sign := 1.0
	if s[0] == '-' {
		sign = -1
	}
	if len(digits) > 2 && digits[0] == '0' {
		switch digits[1] | 0x20 {
		case 'x':
			f, ok := parseHex(digits[2:])
			return sign * f, ok
		case 'b':
			n, err := strconv.ParseUint(digits[2:], 2, 32)
			return sign * float64(n), err == nil
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return sign * f, true
}

// parseHex reads hexadecimal digits with an optional point and an optional
// binary exponent.
func parseHex(s string) (f float64, ok bool) {
	scale, exponent, any := 1.0, 0, false
	point := false
	for i := range len(s) {
		c := s[i]
		d := hexDigit(c)
		switch {
		case d >= 0:
			f, any = f*16+float64(d), true
			if point {
				scale *= 16
			}
		case c == '.' && !point:
			point = true
		case c|0x20 == 'p' && any:
			e, err := strconv.Atoi(s[i+1:])
			if err != nil {
				return 0, false
			}
			exponent = max(min(e, 1<<12), -1<<12)
			return math.Ldexp(f/scale, exponent), true
		default:
			return 0, false
		}
	}
	return f / scale, any
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// append appends the value as text, as Lua's tostring prints it; a tree, which
// has no text in Lua, as JSON.
func (v value) append(dst []byte) ([]byte, bool) {
	switch v.kind {
	case absent:
		return dst, false
	case text:
		return append(dst, v.text...), true
	case number:
		return strconv.AppendFloat(dst, v.number, 'g', 14, 64), true
	case boolean:
		return strconv.AppendBool(dst, v.number != 0), true
	case null:
		return append(dst, "null"...), true
	}
	return v.tree.Append(dst), true
}
