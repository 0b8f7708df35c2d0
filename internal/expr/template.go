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
	body  bool
}

type part struct {
	literal string // before the variable
	v       Var
	other   string // in place of an absent value
}

// Parse compiles APISIX's template syntax (core.utils.resolve_var): $name, where
// a name consists of letters, digits, "_" and ".", and ${name} and
// ${name ?? default}, where it is any text. An absent value is empty or the
// default. A "$" behind a backslash, which stays, or one that begins no
// reference stands for itself. A name that is not the gateway's own is what a
// plugin sets by Ctx.SetVar. Only a post_arg path can be wrong.
func Parse(text string) (*Template, error) {
	t := &Template{fixed: true}
	var literal strings.Builder
	for i := 0; i < len(text); {
		name, other, n := "", "", 0
		if text[i] == '$' && (i == 0 || text[i-1] != '\\') {
			name, other, n = reference(text[i:])
		}
		if n == 0 {
			literal.WriteByte(text[i])
			i++
			continue
		}
		v, err := Variable(name)
		if err != nil {
			return nil, fmt.Errorf("at character %d: %w", i+1, err)
		}
		t.parts = append(t.parts, part{literal: literal.String(), v: v, other: other})
		t.body = t.body || v.body
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
func reference(s string) (name, other string, n int) {
	inside, _, closed := strings.Cut(s[1:], "}")
	if closed && len(inside) > 1 && inside[0] == '{' {
		segments := strings.SplitN(strings.TrimSpace(inside[1:]), "??", 3)
		if len(segments) > 1 {
			other = strings.TrimSpace(segments[1])
		}
		return strings.TrimSpace(segments[0]), other, len(inside) + len("$}")
	}
	end := 1
	for end < len(s) && (isNameByte(s[end], true) || s[end] == '.') {
		end++
	}
	if end == 1 {
		return "", "", 0
	}
	return s[1:end], "", end
}

// ReadsBody says that a variable comes from the request's body (Var.ReadsBody).
func (t *Template) ReadsBody() bool { return t.body }

// Append appends the text with the request's values.
func (t *Template) Append(dst []byte, c *plugin.Ctx) []byte { return t.AppendEach(dst, c, nil) }

// AppendEach is Append with a say in every value, also one that stands in place
// of an absent one: each, if not nil, may change what was appended from there on.
func (t *Template) AppendEach(dst []byte, c *plugin.Ctx, each func(dst []byte, from int) []byte) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		from := len(dst)
		var ok bool
		if dst, ok = p.v.Append(dst, c); !ok {
			dst = append(dst, p.other...)
		}
		if each != nil && len(dst) > from {
			dst = each(dst, from)
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
	b := getBuffer()
	defer putBuffer(b)
	*b = t.Append(*b, c)
	return c.Keep(*b)
}

// Fixed reports that the text has no variables.
func (t *Template) Fixed() bool { return t.fixed }
