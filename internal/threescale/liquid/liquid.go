package liquid

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/osteele/liquid/parser"
	"github.com/osteele/liquid/render"
)

// A Scope says what a name stands for: a string, a number, a bool, a []any, a
// map[string]any, Fields; nil: nothing.
type Scope func(name string) any

// Fields are a value with members that are looked up when a template asks.
type Fields interface {
	// Field returns the member of that name, a value as of a Scope; nil: none.
	Field(name string) any
}

// Limit bounds what a template renders to, and what each of its filters makes, in
// bytes (liquid-lua: length_limit).
const Limit = 100_000

// A Template is a compiled template. It is immutable.
type Template struct {
	parts []Part
	root  render.Node // nil: parts say it all
	names []string
}

// A Part is a piece of a simple template: text, or the name of a value and of the
// members that lead to the one to show.
type Part struct {
	Text string
	Path []string // nil: Text
}

// Parse compiles a template. An error says what liquid-lua would not accept, either.
func Parse(source string) (*Template, error) {
	tokens := parser.Scan(source, parser.SourceLoc{}, nil)
	if err := balanced(tokens); err != nil {
		return nil, err
	}
	if parts := simple(tokens); parts != nil {
		return &Template{parts: parts}, nil
	}
	root, err := compile(renamed(tokens))
	if err != nil {
		return nil, err
	}
	return &Template{root: root, names: names(tokens)}, nil
}

// compile does not trust the library not to panic.
func compile(source string) (root render.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("%v", r)
		}
	}()
	root, failure := dialect().Compile(source, parser.SourceLoc{})
	if failure != nil {
		return nil, failure
	}
	return root, nil
}

// Parts are the pieces of a template that only shows values; nil: it does more.
func (t *Template) Parts() []Part { return t.parts }

// Render renders the template. It fails where liquid-lua does: a filter that is
// not there or cannot work with its input, a value with members where a text is
// meant, a loop (they are limited to 0 iterations), more than Limit.
func (t *Template) Render(scope Scope) (string, error) {
	if t.root == nil {
		return t.join(scope)
	}
	bindings := make(map[string]any, len(t.names))
	for _, n := range t.names {
		if v := scope(n); v != nil {
			bindings[n] = wrap(v)
		}
	}
	return t.run(bindings)
}

func (t *Template) join(scope Scope) (string, error) {
	var dst []byte
	for _, p := range t.parts {
		if p.Path == nil {
			dst = append(dst, p.Text...)
			continue
		}
		var ok bool
		if dst, ok = AppendText(dst, Walk(scope(p.Path[0]), p.Path[1:])); !ok {
			return "", fmt.Errorf("%s is not a text", strings.Join(p.Path, "."))
		}
		if len(dst) > Limit {
			return "", errLong
		}
	}
	return string(dst), nil
}

var errLong = errors.New("the template renders to too much")

// run does not trust the library not to panic.
func (t *Template) run(bindings map[string]any) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("%v", r)
		}
	}()
	var out bounded
	if failure := render.Render(t.root, &out, bindings, dialect()); failure != nil {
		return "", failure
	}
	return string(out), nil
}

// bounded takes at most Limit bytes.
type bounded []byte

func (b *bounded) Write(p []byte) (int, error) {
	if len(*b)+len(p) > Limit {
		return 0, errLong
	}
	*b = append(*b, p...)
	return len(p), nil
}

// balanced says that no text holds an end or a beginning of code.
func balanced(tokens []parser.Token) error {
	raw := false
	for _, t := range tokens {
		switch {
		case t.Type == parser.TagTokenType && t.Name == "raw":
			raw = true
		case t.Type == parser.TagTokenType && t.Name == "endraw":
			raw = false
		case t.Type == parser.TextTokenType && !raw:
			for _, mark := range []string{"{{", "{%", "}}", "%}"} {
				if strings.Contains(t.Source, mark) {
					return fmt.Errorf("%q without its counterpart", mark)
				}
			}
		}
	}
	return nil
}

// simple returns the parts of a template that only shows values, else nil.
func simple(tokens []parser.Token) []Part {
	parts := []Part{}
	for _, t := range tokens {
		switch t.Type {
		case parser.TextTokenType:
			parts = append(parts, Part{Text: t.Source})
		case parser.ObjTokenType:
			path := path(t.Args)
			if path == nil {
				return nil
			}
			parts = append(parts, Part{Path: path})
		default:
			return nil
		}
	}
	return parts
}

// path takes a.b["c"] apart; nil: it is something else.
func path(s string) []string {
	name, rest := ident(s)
	if name == "" || keyword(name) {
		return nil
	}
	list := []string{name}
	for rest != "" {
		switch rest[0] {
		case '.':
			name, rest = ident(rest[1:])
			if name == "" {
				return nil
			}
		case '[':
			if name, rest = quoted(rest[1:]); rest == "" || rest[0] != ']' {
				return nil
			}
			rest = rest[1:]
		default:
			return nil
		}
		list = append(list, name)
	}
	return list
}

func keyword(s string) bool {
	switch s {
	case "true", "false", "nil", "empty", "blank", "null":
		return true
	}
	return false
}

func ident(s string) (name, rest string) {
	i := 0
	for i < len(s) && (letter(s[i]) || i > 0 && ('0' <= s[i] && s[i] <= '9' || s[i] == '-')) {
		i++
	}
	return s[:i], s[i:]
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }

func quoted(s string) (text, rest string) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", ""
	}
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 || strings.IndexByte(s[1:1+end], '\\') >= 0 {
		return "", ""
	}
	return s[1 : 1+end], s[2+end:]
}

// names are those that the template's code may ask a Scope for.
func names(tokens []parser.Token) []string {
	found := map[string]struct{}{}
	for _, t := range tokens {
		if t.Type == parser.ObjTokenType || t.Type == parser.TagTokenType {
			identifiers(t.Args, found)
		}
	}
	list := make([]string, 0, len(found))
	for n := range maps.Keys(found) {
		list = append(list, n)
	}
	return list
}

func identifiers(code string, found map[string]struct{}) {
	for code != "" {
		switch c := code[0]; {
		case c == '"' || c == '\'':
			_, after, _ := strings.Cut(code[1:], code[:1])
			code = after
		case c == '.':
			_, code = ident(code[1:])
		case letter(c):
			var name string
			name, code = ident(code)
			found[name] = struct{}{}
		default:
			code = code[1:]
		}
	}
}
