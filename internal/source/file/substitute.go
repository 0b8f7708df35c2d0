package file

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/document"
)

// A Lookup finds an environment variable.
type Lookup func(name string) (value string, ok bool)

// expand replaces ${{NAME}} and ${{NAME:=default}} in a text. What does not have
// that form stays; a variable that is not set and has no default is an error
// (apisix/cli/file, var_sub).
func (l Lookup) expand(s string) (out string, changed bool, err error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${{")
		inside, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			b.WriteString(s)
			return b.String(), changed, nil
		}
		inside = strings.TrimSpace(inside)
		if inside == "" || !isWord(inside[0]) {
			b.WriteString(before + "${{")
			s = rest
			continue
		}
		name, other, hasOther := strings.Cut(inside, ":=")
		name = strings.TrimSpace(name)
		value, ok := l(name)
		switch {
		case ok:
		case hasOther:
			value = strings.TrimSpace(other)
		default:
			return "", false, fmt.Errorf("failed to handle configuration: can't find environment variable %s", name)
		}
		b.WriteString(before + value)
		s, changed = after, true
	}
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// expandValue replaces variables in the strings and names below v. A string
// that named a variable and then looks like a number, true or false becomes one.
func (l Lookup) expandValue(v *document.Value) error {
	for _, item := range v.Items {
		if err := l.expandValue(item); err != nil {
			return err
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		if err := l.expandValue(m.Value); err != nil {
			return err
		}
		name, _, err := l.expand(m.Name)
		if err != nil {
			return err
		}
		m.Name = name
	}
	if !v.Is(document.String) {
		return nil
	}
	s, changed, err := l.expand(v.Text)
	if err != nil || !changed {
		return err
	}
	v.Text = s
	if s == "true" || s == "false" {
		v.Kind = document.Bool
	} else if n, err := document.Parse([]byte(s)); err == nil && n.Is(document.Number) {
		v.Kind, v.Text = document.Number, n.Text
	} else if f, err := strconv.ParseInt(s, 0, 64); err == nil {
		v.Kind, v.Text = document.Number, strconv.FormatInt(f, 10)
	}
	return nil
}
