package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a document. What exceeds them is refused before anything else is done.
const (
	// MaxSize is the longest document accepted, in bytes.
	MaxSize = 16 << 20
	// MaxDepth is the deepest nesting of objects and arrays accepted.
	MaxDepth = 256

	maxNumber   = 100 // characters of a number
	maxExponent = 400 // beyond the range of a double
)

// A SyntaxError says that a document is not the JSON that Weir accepts: it breaks
// the grammar, names a property twice or exceeds a bound.
type SyntaxError struct {
	Offset int64 // bytes read before the error
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at character %d", e.Reason, e.Offset)
}

// Syntax reports, as a *SyntaxError, why doc is not one JSON value (RFC 8259)
// without duplicate names, within the bounds of this package.
func Syntax(doc []byte) error {
	_, err := parse(doc, nil)
	return err
}

// parse turns doc into map[string]any, []any, string, bool, nil and
// json.Number, which keeps every digit. If order is given, the position of each
// property among its siblings is noted there under its JSON pointer (RFC 6901).
func parse(doc []byte, order map[string]int) (any, error) {
	if len(doc) > MaxSize {
		return nil, &SyntaxError{Offset: MaxSize, Reason: fmt.Sprintf("document larger than %d bytes", MaxSize)}
	}
	// The library's scanner knows the grammar; what follows relies on it.
	if !json.Valid(doc) {
		return nil, malformed(doc)
	}
	p := parser{text: doc, order: order}
	return p.value("", 0)
}

// malformed says what is wrong with the grammar of doc.
func malformed(doc []byte) error {
	var whole json.RawMessage
	err := json.Unmarshal(doc, &whole)
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &SyntaxError{Offset: s.Offset, Reason: s.Error()}
	}
	return &SyntaxError{Offset: int64(len(doc)), Reason: fmt.Sprint(err)}
}

// A parser walks a text that is known to be valid JSON.
type parser struct {
	text  []byte
	pos   int
	order map[string]int
	last  bool // the last of properties of the same name counts
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{Offset: int64(p.pos), Reason: fmt.Sprintf(format, args...)}
}

// space moves to the next significant byte and returns it.
func (p *parser) space() byte {
	for {
		switch c := p.text[p.pos]; c {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return c
		}
	}
}

func (p *parser) value(ptr string, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, p.fail("nested deeper than %d levels", MaxDepth)
	}
	switch p.space() {
	case '{':
		return p.object(ptr, depth)
	case '[':
		return p.array(ptr, depth)
	case '"':
		return p.str()
	case 't':
		p.pos += len("true")
		return true, nil
	case 'f':
		p.pos += len("false")
		return false, nil
	case 'n':
		p.pos += len("null")
		return nil, nil
	}
	return p.number()
}

func (p *parser) object(ptr string, depth int) (any, error) {
	obj := map[string]any{}
	p.pos++
	if p.space() == '}' {
		p.pos++
		return obj, nil
	}
	for {
		p.space()
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if _, twice := obj[name]; twice && !p.last {
			return nil, p.fail("duplicate property %q", name)
		}
		p.space()
		p.pos++ // colon
		at := ptr
		if p.order != nil {
			at = ptr + "/" + escape(name)
			p.order[at] = len(obj)
		}
		if obj[name], err = p.value(at, depth+1); err != nil {
			return nil, err
		}
		end := p.space()
		p.pos++
		if end == '}' {
			return obj, nil
		}
	}
}

func (p *parser) array(ptr string, depth int) (any, error) {
	arr := []any{}
	p.pos++
	if p.space() == ']' {
		p.pos++
		return arr, nil
	}
	for {
		at := ptr
		if p.order != nil {
			at = ptr + "/" + strconv.Itoa(len(arr))
		}
		v, err := p.value(at, depth+1)
		if err != nil {
			return nil, err
		}
		arr = append(arr, v)
		end := p.space()
		p.pos++
		if end == ']' {
			return arr, nil
		}
	}
}

func (p *parser) str() (string, error) {
	start, plain := p.pos, true
	for p.pos++; p.text[p.pos] != '"'; p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '\\':
			p.pos++
			plain = false
		case c >= 0x80:
			plain = false // may not be UTF-8
		}
	}
	p.pos++
	if plain {
		return string(p.text[start+1 : p.pos-1]), nil
	}
	var s string
	if err := json.Unmarshal(p.text[start:p.pos], &s); err != nil {
		return "", p.fail("%v", err)
	}
	return s, nil
}

func (p *parser) number() (any, error) {
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[p.pos]) >= 0 {
		p.pos++
	}
	lit := p.text[start:p.pos]
	if len(lit) > maxNumber {
		return nil, p.fail("number with more than %d characters", maxNumber)
	}
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		if exp, err := strconv.Atoi(string(lit[i+1:])); err != nil || exp > maxExponent || exp < -maxExponent {
			return nil, p.fail("number out of range")
		}
		if _, err := strconv.ParseFloat(string(lit), 64); err != nil {
			return nil, p.fail("number out of range")
		}
	}
	return json.Number(lit), nil
}

// escape prepares a name for a JSON pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
