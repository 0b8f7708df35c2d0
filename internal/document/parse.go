package document

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of arrays and objects, as lua-cjson does.
const MaxDepth = 1000

// Parse reads one JSON text (RFC 8259). Of members with one name the last
// counts. Errors are in the words of lua-cjson, which clients of APISIX know:
// "Expected value but found invalid token at character 1".
func Parse(doc []byte) (*Value, error) {
	p := parser{text: doc}
	return p.all()
}

// Check is Parse for its error. It keeps nothing of the text.
func Check(doc []byte) error {
	p := parser{text: doc, bare: true}
	_, err := p.all()
	return err
}

// Strict is the JSON text that a text stands for: itself, or what differs from it
// in that control characters in strings are escaped. An error is Parse's.
func Strict(doc []byte) ([]byte, error) {
	if json.Valid(doc) {
		return doc, nil
	}
	if err := Check(doc); err != nil {
		return nil, err
	}
	out, inside := make([]byte, 0, len(doc)+len(doc)/8), false
	for i := 0; i < len(doc); i++ {
		c := doc[i]
		switch {
		case inside && c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
			continue
		case inside && c == '\\':
			out = append(out, c)
			i++
			c = doc[i]
		case c == '"':
			inside = !inside
		}
		out = append(out, c)
	}
	return out, nil
}

func (p *parser) all() (*Value, error) {
	p.next()
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.next(); p.token != tokenEnd {
		return nil, p.expected("the end")
	}
	return v, nil
}

// A token is named by its first character, except for these.
const (
	tokenEnd     = 0
	tokenString  = '"'
	tokenNumber  = '0'
	tokenBool    = 't'
	tokenNull    = 'n'
	tokenInvalid = '!'
)

type parser struct {
	text    []byte
	at      int
	start   int // of the token
	token   byte
	literal string
	fault   string // of an invalid token
	bare    bool   // nothing is kept
}

func (p *parser) expected(what string) error {
	found := map[byte]string{
		'{': "T_OBJ_BEGIN", '}': "T_OBJ_END", '[': "T_ARR_BEGIN", ']': "T_ARR_END", ':': "T_COLON", ',': "T_COMMA",
		tokenString: "T_STRING", tokenNumber: "T_NUMBER", tokenBool: "T_BOOLEAN", tokenNull: "T_NULL", tokenEnd: "T_END",
		tokenInvalid: p.fault,
	}[p.token]
	//lint:ignore ST1005 lua-cjson's words, which clients see
	return fmt.Errorf("Expected %s but found %s at character %d", what, found, p.start+1)
}

func (p *parser) value(depth int) (*Value, error) {
	switch p.token {
	case tokenString:
		return p.scalar(String), nil
	case tokenNumber:
		return p.scalar(Number), nil
	case tokenBool:
		return p.scalar(Bool), nil
	case tokenNull:
		return &Value{Kind: Null}, nil
	case '{', '[':
		if depth == MaxDepth {
			//lint:ignore ST1005 lua-cjson's words
			return nil, fmt.Errorf("Found too many nested data structures (%d) at character %d", depth+1, p.start+1)
		}
		if p.token == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	}
	return nil, p.expected("value")
}

func (p *parser) scalar(k Kind) *Value {
	if p.bare {
		return nil
	}
	return &Value{Kind: k, Text: p.literal}
}

func (p *parser) object(depth int) (*Value, error) {
	v := &Value{Kind: Object}
	if p.next(); p.token == '}' {
		return v, nil
	}
	var seen map[string]int // of large objects, where a search would cost
	for {
		if p.token != tokenString {
			return nil, p.expected("object key string")
		}
		name := p.literal
		if p.next(); p.token != ':' {
			return nil, p.expected("colon")
		}
		p.next()
		member, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		if !p.bare {
			seen = v.add(name, member, seen)
		}
		switch p.next(); p.token {
		case '}':
			return v, nil
		case ',':
			p.next()
		default:
			return nil, p.expected("comma or object end")
		}
	}
}

// add is Set in constant time, however many members there are.
func (v *Value) add(name string, member *Value, seen map[string]int) map[string]int {
	const large = 32
	if len(v.Members) < large {
		v.Set(name, member)
		return nil
	}
	if seen == nil {
		seen = make(map[string]int, 2*large)
		for i, m := range v.Members {
			seen[m.Name] = i
		}
	}
	if i, ok := seen[name]; ok {
		v.Members[i].Value = member
		return seen
	}
	seen[name] = len(v.Members)
	v.Members = append(v.Members, Member{name, member})
	return seen
}

func (p *parser) array(depth int) (*Value, error) {
	v := &Value{Kind: Array}
	if p.next(); p.token == ']' {
		return v, nil
	}
	for {
		item, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		if !p.bare {
			v.Items = append(v.Items, item)
		}
		switch p.next(); p.token {
		case ']':
			return v, nil
		case ',':
			p.next()
		default:
			return nil, p.expected("comma or array end")
		}
	}
}

// next reads the next token.
func (p *parser) next() {
	for p.at < len(p.text) && isSpace(p.text[p.at]) {
		p.at++
	}
	p.start = p.at
	if p.at == len(p.text) {
		p.token = tokenEnd
		return
	}
	c := p.text[p.at]
	switch {
	case c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',':
		p.token = c
		p.at++
	case c == '"':
		p.string()
	case c == '-' || isDigit(c):
		p.number()
	default:
		p.word()
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (p *parser) invalid(fault string) { p.token, p.fault = tokenInvalid, fault }

func (p *parser) word() {
	for _, w := range []struct {
		text  string
		token byte
	}{{"true", tokenBool}, {"false", tokenBool}, {"null", tokenNull}} {
		if end := p.at + len(w.text); end <= len(p.text) && string(p.text[p.at:end]) == w.text {
			p.token, p.literal, p.at = w.token, w.text, end
			return
		}
	}
	p.invalid("invalid token")
}

// number takes the grammar of RFC 8259 section 6, no hexadecimal digits and no
// infinities.
func (p *parser) number() {
	at := p.at
	digits := func() bool {
		from := at
		for at < len(p.text) && isDigit(p.text[at]) {
			at++
		}
		return at > from
	}
	is := func(set string) bool {
		for i := 0; at < len(p.text) && i < len(set); i++ {
			if p.text[at] == set[i] {
				at++
				return true
			}
		}
		return false
	}
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		ok = digits()
	}
	if ok && is("eE") {
		is("+-")
		ok = digits()
	}
	if !ok || at < len(p.text) && (isDigit(p.text[at]) || p.text[at] == '.') {
		p.invalid("invalid number")
		return
	}
	p.token, p.literal, p.at = tokenNumber, string(p.text[p.at:at]), at
}

// string takes control characters as they are, except NUL: lua-cjson does, and
// scripts in configuration have line feeds. They are escaped when printed.
func (p *parser) string() {
	from := p.at + 1
	for i := from; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			p.token, p.literal, p.at = tokenString, string(p.text[from:i]), i+1
			return
		case c == '\\':
			p.escaped(from, i)
			return
		case c == 0:
			p.invalid("unexpected end of string")
			return
		}
	}
	p.invalid("unexpected end of string")
}

// escaped reads a string whose first escape is at i.
func (p *parser) escaped(from, i int) {
	out := append([]byte(nil), p.text[from:i]...)
	for i < len(p.text) {
		c := p.text[i]
		switch {
		case c == '"':
			p.token, p.literal, p.at = tokenString, string(out), i+1
			return
		case c == 0:
			p.invalid("unexpected end of string")
			return
		case c != '\\':
			out = append(out, c)
			i++
			continue
		}
		if i+1 == len(p.text) {
			break
		}
		n, ok := 2, true
		if p.text[i+1] == 'u' {
			out, n, ok = p.unicode(out, i)
		} else {
			out, ok = appendEscape(out, p.text[i+1])
		}
		if !ok {
			p.start = i
			p.invalid("invalid escape code")
			return
		}
		i += n
	}
	p.invalid("unexpected end of string")
}

func appendEscape(dst []byte, c byte) ([]byte, bool) {
	switch c {
	case '"', '\\', '/':
		return append(dst, c), true
	case 'b':
		return append(dst, '\b'), true
	case 'f':
		return append(dst, '\f'), true
	case 'n':
		return append(dst, '\n'), true
	case 'r':
		return append(dst, '\r'), true
	case 't':
		return append(dst, '\t'), true
	}
	return dst, false
}

// unicode reads \uXXXX at i, or a pair of surrogates, and returns how long it
// is in the text. Half a pair is an error.
func (p *parser) unicode(dst []byte, i int) ([]byte, int, bool) {
	r, ok := p.hex4(i)
	if !ok {
		return dst, 0, false
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), 6, true
	}
	low, ok := p.hex4(i + 6)
	both := utf16.DecodeRune(r, low)
	if !ok || both == utf8.RuneError {
		return dst, 0, false
	}
	return utf8.AppendRune(dst, both), 12, true
}

func (p *parser) hex4(i int) (rune, bool) {
	if i+6 > len(p.text) || p.text[i] != '\\' || p.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.text[i+2:i+6]), 16, 32)
	return rune(n), err == nil
}
