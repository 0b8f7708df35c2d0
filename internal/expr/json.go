package expr

import (
	"encoding/json"
	"math"

	"weir/internal/document"
	"weir/internal/plugin"
)

// AppendJSON appends the value as JSON: what is a number, a boolean or a tree in
// APISIX is one here, everything else a string, in which bytes that are not UTF-8
// are replaced. When the variable is absent, it returns dst as it was and false.
func (v Var) AppendJSON(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	if v.text != nil {
		s, ok := v.text(c)
		if !ok {
			return dst, false
		}
		return document.AppendText(dst, s), true
	}
	b := getBuffer()
	defer putBuffer(b)
	got := v.value(c, b)
	switch {
	case got.kind == absent:
		return dst, false
	case got.kind == text && (!v.number || !isNumber(got.text)):
		return document.AppendText(dst, got.text), true
	case got.kind == number && (math.IsInf(got.number, 0) || math.IsNaN(got.number)):
		return append(dst, "null"...), true
	}
	return got.append(dst)
}

// isNumber says that s, which a variable printed, is a JSON number. A list of
// times is not, nor is a status before there is one.
func isNumber(s string) bool {
	return s != "" && '0' <= s[0] && s[0] <= '9' && json.Valid([]byte(s))
}
