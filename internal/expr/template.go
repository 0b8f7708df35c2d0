package expr

import (
	"fmt"
	"strings"

	"weir/internal/plugin"
)

// A Template is text with variables.
type Template struct {
	parts []part
	fixed bool
}

type part struct {
	literal string // before the variable
	v       Var
	other   string // in place of an absent value
}

// Parse compiles APISIX's template syntax: $name, ${name} and
// ${name ?? default}, where a name consists of letters, digits, "_" and "." and
// an absent value is empty or the default; \$ is a dollar sign. An unknown
// variable or a brace that is not closed is an error; a "$" that begins no name
// stands for itself.
func Parse(text string) (*Template, error) {
	t := &Template{fixed: true}
	var literal strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\\' && strings.HasPrefix(text[i+1:], "$"):
			literal.WriteByte('$')
			i += 2
			continue
		case text[i] != '$':
			literal.WriteByte(text[i])
			i++
			continue
		}
		name, other, n, err := reference(text[i:])
		if err != nil {
			return nil, fmt.Errorf("at character %d: %w", i+1, err)
		}
		if n == 0 {
			literal.WriteByte('$')
			i++
			continue
		}
		v, err := Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("at character %d: %w", i+1, err)
		}
		t.parts = append(t.parts, part{literal: literal.String(), v: v, other: other})
		literal.Reset()
		t.fixed = false
		i += n
	}
	if literal.Len() > 0 {
		t.parts = append(t.parts, part{literal: literal.String()})
	}
	return t, nil
}

// reference reads the variable at the start of s, which is a "$"; n is its
// length, 0 when s begins no variable.
func reference(s string) (name, other string, n int, err error) {
	if !strings.HasPrefix(s, "${") {
		end := 1
		for end < len(s) && nameByte(s[end]) {
			end++
		}
		if end == 1 {
			return "", "", 0, nil
		}
		return s[1:end], "", end, nil
	}
	inside, _, closed := strings.Cut(s[2:], "}")
	if !closed {
		return "", "", 0, fmt.Errorf("${ is not closed")
	}
	name, other, _ = strings.Cut(inside, "??")
	name, other = strings.TrimSpace(name), strings.TrimSpace(other)
	for i := range len(name) {
		if !nameByte(name[i]) {
			return "", "", 0, fmt.Errorf("%q is not a variable's name", name)
		}
	}
	return name, other, len(inside) + len("${}"), nil
}

func nameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// Append appends the text with the request's values.
func (t *Template) Append(dst []byte, c *plugin.Ctx) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		var ok bool
		if dst, ok = p.v.Append(dst, c); !ok {
			dst = append(dst, p.other...)
		}
	}
	return dst
}

// Value returns the text as a string that lives as long as the request.
func (t *Template) Value(c *plugin.Ctx) string {
	switch {
	case len(t.parts) == 0:
		return ""
	case t.fixed:
		return t.parts[0].literal
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = t.Append((*b)[:0], c)
	return c.Keep(*b)
}

// Fixed reports that the text has no variables.
func (t *Template) Fixed() bool { return t.fixed }
