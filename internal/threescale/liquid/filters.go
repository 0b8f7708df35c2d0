package liquid

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

var errText = errors.New("a text is expected")

// ownFilters are those of liquid-lua where it differs from the library, and those
// that APIcast adds.
func ownFilters() map[string]any {
	all := map[string]any{
		"join": join, "first": first, "last": last, "concat": concat, "index": index, "map": project,
		"reverse": reverse, "size": size, "sort": sorted, "uniq": uniq,
		"abs":  func(a any) (any, error) { return calculate(a, nil, func(a, _ float64) float64 { return math.Abs(a) }) },
		"ceil": func(a any) (any, error) { return calculate(a, nil, func(a, _ float64) float64 { return math.Ceil(a) }) },
		"floor": func(a any) (any, error) {
			return calculate(a, nil, func(a, _ float64) float64 { return math.Floor(a) })
		},
		"plus":  func(a, b any) (any, error) { return calculate(a, b, func(a, b float64) float64 { return a + b }) },
		"minus": func(a, b any) (any, error) { return calculate(a, b, func(a, b float64) float64 { return a - b }) },
		"times": func(a, b any) (any, error) { return calculate(a, b, func(a, b float64) float64 { return a * b }) },
		"modulo": func(a, b any) (any, error) {
			return calculate(a, b, func(a, b float64) float64 { return a - math.Floor(a/b)*b })
		},
		"divided_by": divide, "round": round,
		"append":   func(a, b any) (any, error) { return build(a, b, func(a, b string) string { return a + b }) },
		"prepend":  func(a, b any) (any, error) { return build(a, b, func(a, b string) string { return b + a }) },
		"downcase": onText(lower),
		"upcase":   onText(upper),
		"escape":   onText(htmlReplacer.Replace),
		"str_reverse": onText(func(s string) string {
			b := []byte(s)
			slices.Reverse(b)
			return string(b)
		}),
		"capitalize": onText(func(s string) string {
			if s == "" {
				return s
			}
			return upper(s[:1]) + s[1:]
		}),
		"remove":         func(a, b any) (any, error) { return replace(a, b, "", -1) },
		"remove_first":   func(a, b any) (any, error) { return replace(a, b, "", 1) },
		"replace":        func(a, b, c any) (any, error) { return replace(a, b, c, -1) },
		"replace_first":  func(a, b, c any) (any, error) { return replace(a, b, c, 1) },
		"slice":          slice,
		"split":          split,
		"strip":          onText(func(s string) string { return strings.Trim(s, space) }),
		"lstrip":         onText(func(s string) string { return strings.TrimLeft(s, space) }),
		"rstrip":         onText(func(s string) string { return strings.TrimRight(s, space) }),
		"strip_newlines": onText(func(s string) string { return strings.ReplaceAll(s, "\n", "") }),
		"url_encode":     onText(urlEncode),
		"url_decode":     onText(func(s string) string { return unescape(s, false) }),
		"json":           func(a any) string { return string(appendJSON(nil, a)) },
		"get":            get,
	}
	for name, f := range nginxFilters() {
		all[name] = f
	}
	return all
}

const space = " \t\n\v\f\r"

var htmlReplacer = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", "'", "&#039;", `"`, "&quot;")

func lower(s string) string { return asciiCase(s, 'A', 'Z') }
func upper(s string) string { return asciiCase(s, 'a', 'z') }

func asciiCase(s string, from, to byte) string {
	b := []byte(s)
	for i, c := range b {
		if from <= c && c <= to {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

// text is v as a text, as far as Lua takes it for one: a string or a number.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil, bool:
		return "", errText
	}
	if b, ok := AppendText(nil, v); ok {
		return string(b), nil
	}
	return "", errText
}

// count is v as a number, or a text that is one.
func count(v any) (float64, error) {
	if f, ok := number(v); ok {
		return f, nil
	}
	var f float64
	if s, ok := v.(string); ok {
		if _, err := fmt.Sscan(strings.TrimSpace(s), &f); err == nil {
			return f, nil
		}
	}
	return 0, errors.New("a number is expected")
}

func calculate(a, b any, do func(a, b float64) float64) (any, error) {
	x, err := count(a)
	if err != nil {
		return nil, err
	}
	var y float64
	if b != nil {
		if y, err = count(b); err != nil {
			return nil, err
		}
	}
	return result(do(x, y)), nil
}

func divide(a, b any) (any, error) {
	if y, err := count(b); err != nil || y == 0 {
		return nil, errors.New("division by zero")
	}
	return calculate(a, b, func(a, b float64) float64 { return a / b })
}

func round(a, b any) (any, error) {
	return calculate(a, b, func(a, b float64) float64 {
		m := math.Pow(10, b)
		return math.Floor(a*m+0.5) / m
	})
}

func onText(f func(string) string) func(any) (any, error) {
	return func(a any) (any, error) {
		s, err := text(a)
		if err != nil {
			return nil, err
		}
		return short(f(s))
	}
}

func build(a, b any, f func(a, b string) string) (any, error) {
	x, err := text(a)
	if err != nil {
		return nil, err
	}
	y, err := text(b)
	if err != nil {
		return nil, err
	}
	return short(f(x, y))
}

func short(s string) (any, error) {
	if len(s) > Limit {
		return nil, errLong
	}
	return s, nil
}

func replace(a, b, c any, n int) (any, error) {
	by, err := text(c)
	if err != nil {
		return nil, err
	}
	s, err := text(a)
	if err != nil {
		return nil, err
	}
	old, err := text(b)
	if err != nil {
		return nil, err
	}
	if hits := strings.Count(s, old); len(s)+hits*(len(by)-len(old)) > Limit {
		return nil, errLong
	}
	return strings.Replace(s, old, by, n), nil
}

// slice is the text from one index to another, which is included.
func slice(a, from, to any) (any, error) {
	s, err := text(a)
	if err != nil {
		return nil, err
	}
	x, err := count(from)
	if err != nil {
		return nil, err
	}
	y, err := count(to)
	if err != nil {
		return nil, err
	}
	i, j := luaIndex(x+1, len(s)), luaIndex(y+1, len(s))
	i, j = max(i, 1), min(j, len(s))
	if i > j {
		return "", nil
	}
	return s[i-1 : j], nil
}

// luaIndex counts negative indexes from the end, as string.sub does.
func luaIndex(f float64, size int) int {
	f = max(min(f, math.MaxInt32), math.MinInt32)
	if f < 0 {
		return size + int(f) + 1
	}
	return int(f)
}

// split takes a text apart as liquid-lua does: an empty piece is the first byte of
// the separator after it, and a last piece of one byte is lost.
func split(a, b any) (any, error) {
	s, err := text(a)
	if err != nil {
		return nil, err
	}
	sep, err := text(b)
	if err != nil || sep == "" {
		return nil, errText
	}
	list := []any{}
	index := 0
	for {
		n := strings.Index(s[index:], sep)
		if n < 0 {
			break
		}
		if n > 0 {
			list = append(list, s[index:index+n])
		} else {
			list = append(list, s[index:index+1])
		}
		index += n + len(sep)
	}
	if index < len(s)-1 {
		list = append(list, s[index:])
	}
	return list, nil
}

// urlEncode leaves what liquid-lua leaves.
func urlEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString("%0D%0A")
		case c == ' ':
			b.WriteByte('+')
		case alnum(c) || strings.IndexByte("$-_.+!*'(),", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func alnum(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' }
