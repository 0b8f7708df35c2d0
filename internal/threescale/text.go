package threescale

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/threescale/liquid"
)

// A Text is a value of a configuration that may be a template. It is immutable.
type Text struct {
	plain    string
	parts    []part
	template *liquid.Template // nil: plain or parts
	names    *Vocabulary      // of template
}

// A part of a template that only shows values.
type part struct {
	text string
	of   func(*plugin.Ctx) (string, bool) // nil: text
}

// The kinds of texts.
const (
	Plain  = "plain"
	Liquid = "liquid"
)

// NewText compiles a text of a kind, plain where kind is empty. A template that
// is wrong renders to nothing, as in APIcast; Text.Fault says so. The error is
// for another kind.
func NewText(value, kind string) (*Text, error) { return NewTextIn(nil, value, kind) }

// NewTextIn is NewText with other names than those of ScopeOf; nil: with those.
func NewTextIn(scope func(*plugin.Ctx) liquid.Scope, value, kind string) (*Text, error) {
	if scope == nil {
		return NewTextOf(common, value, kind)
	}
	return NewTextOf(&Vocabulary{Value: func(c *plugin.Ctx, name string) any { return scope(c)(name) }}, value, kind)
}

// NewTextOf is NewText with the names of a vocabulary.
func NewTextOf(names *Vocabulary, value, kind string) (*Text, error) {
	switch kind {
	case Plain, "":
		return &Text{plain: value}, nil
	case Liquid:
	default:
		return nil, fmt.Errorf("invalid type specified: %s", kind)
	}
	template, err := liquid.Parse(value)
	if err != nil {
		return &Text{}, nil //nolint:nilerr // APIcast goes on with an empty text
	}
	parts := template.Parts()
	switch {
	case parts == nil:
		return &Text{template: template, names: names}, nil
	case len(parts) == 0:
		return &Text{}, nil
	case len(parts) == 1 && parts[0].Path == nil:
		return &Text{plain: parts[0].Text}, nil
	}
	return &Text{parts: names.direct(parts)}, nil
}

// CheckText says what is wrong with a text that would render to nothing.
func CheckText(value, kind string) error {
	if kind != Liquid {
		return nil
	}
	if _, err := liquid.Parse(value); err != nil {
		return fmt.Errorf("invalid Liquid: %s: it will be evaluated to an empty string: %w", value, err)
	}
	return nil
}

// Constant returns the text of one that is the same for all requests.
func (t *Text) Constant() (text string, ok bool) {
	return t.plain, t.template == nil && t.parts == nil
}

// Value is the text for a request; it lives as long as that. What cannot be
// rendered is empty.
func (t *Text) Value(c *plugin.Ctx) string {
	switch {
	case t.template != nil:
		s, err := t.template.Render(t.names.scope(c))
		if err != nil {
			return ""
		}
		return s
	case t.parts == nil:
		return t.plain
	case len(t.parts) == 1:
		s, _ := t.parts[0].of(c)
		return s
	}
	dst := make([]byte, 0, 128)
	for i := range t.parts {
		p := &t.parts[i]
		if p.of == nil {
			dst = append(dst, p.text...)
			continue
		}
		s, ok := p.of(c)
		if !ok || len(dst)+len(s) > liquid.Limit {
			return ""
		}
		dst = append(dst, s...)
	}
	return c.Keep(dst)
}

// direct compiles the parts of a template that only shows values of a request.
func (v *Vocabulary) direct(parts []liquid.Part) []part {
	list := make([]part, len(parts))
	for i, p := range parts {
		if p.Path == nil {
			list[i].text = p.Text
			continue
		}
		list[i].of = v.reader(p.Path)
	}
	return list
}

// reader compiles the way to a value; what it returns says false for what is no
// text.
func (v *Vocabulary) reader(path []string) func(*plugin.Ctx) (string, bool) {
	name, members := path[0], path[1:]
	if of := v.text(name); of != nil {
		if len(members) > 0 {
			return nothing
		}
		return some(of)
	}
	if v.Member != nil && len(members) == 1 {
		if of := v.Member(name, members[0]); of != nil {
			return some(of)
		}
	}
	return func(c *plugin.Ctx) (string, bool) { return TextOf(liquid.Walk(v.Value(c, name), members)) }
}

// TextOf is what templates show of a value; false: it has members.
func TextOf(v any) (string, bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	dst, ok := liquid.AppendText(nil, v)
	return string(dst), ok
}

// nothing is a member of what has none.
func nothing(*plugin.Ctx) (string, bool) { return "", true }

// some takes what is absent for empty.
func some(of func(*plugin.Ctx) (string, bool)) func(*plugin.Ctx) (string, bool) {
	return func(c *plugin.Ctx) (string, bool) {
		s, _ := of(c)
		return s, true
	}
}
