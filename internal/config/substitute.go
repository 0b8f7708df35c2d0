package config

import (
	"fmt"
	"strconv"
	"strings"
)

// An environment finds variables by name.
type environment map[string]string

func newEnvironment(environ []string) environment {
	env := environment{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// substitute replaces ${{NAME}} and ${{NAME:=default}} in every text value and
// key. A value that named a variable and then looks like a number, true or
// false becomes one, also when it was quoted (apisix/core/config_util,
// resolve_conf_var).
func (env environment) substitute(n *node) error {
	switch n.kind {
	case text:
		s, changed, err := env.expand(n.text)
		if err != nil || !changed {
			return err
		}
		n.text, n.hidden = s, true
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			n.kind = number
		} else if s == "true" || s == "false" {
			n.kind = truth
		}
	case table:
		for i, k := range n.keys {
			s, _, err := env.expand(k)
			if err != nil {
				return err
			}
			n.keys[i] = s
		}
	}
	for _, c := range n.nodes {
		if err := env.substitute(c); err != nil {
			return err
		}
	}
	return nil
}

// expand replaces the variables of one text. A "${{" without "}}" is text.
func (env environment) expand(s string) (out string, changed bool, err error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${{")
		inside, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			b.WriteString(s)
			return b.String(), changed, nil
		}
		name, other, hasOther := strings.Cut(inside, ":=")
		name = strings.TrimSpace(name)
		value, ok := env[name]
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
