package liquid

import (
	"errors"
	"slices"
	"strings"
)

// list is v as a list: what is none is its only item.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

func join(a, b any) (any, error) {
	sep := " "
	if b != nil {
		s, err := text(b)
		if err != nil {
			return nil, err
		}
		sep = s
	}
	var out []byte
	for i, v := range list(a) {
		if i > 0 {
			out = append(out, sep...)
		}
		var ok bool
		if out, ok = AppendText(out, v); !ok {
			return nil, errText
		}
		if len(out) > Limit {
			return nil, errLong
		}
	}
	return string(out), nil
}

func first(a any) any { return at(list(a), 0) }
func last(a any) any  { l := list(a); return at(l, len(l)-1) }
func size(a any) any  { return len(list(a)) }

func at(l []any, i int) any {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}

func index(a, b any) (any, error) {
	n, err := count(b)
	if err != nil {
		return nil, err
	}
	return at(list(a), int(max(min(n, Limit), -1))), nil
}

func concat(a, b any) (any, error) {
	x, y := list(a), list(b)
	if len(x)+len(y) > Limit {
		return nil, errLong
	}
	return slices.Concat(x, y), nil
}

func reverse(a any) any {
	l := slices.Clone(list(a))
	slices.Reverse(l)
	return l
}

// project joins a member of all items.
func project(a any, name string) (any, error) {
	var members []any
	for _, v := range list(a) {
		members = append(members, field(v, name))
	}
	return join(members, "")
}

func field(v any, name string) any { return wrap(Walk(v, []string{name})) }

// get is a member by its name.
func get(a any, name any) (any, error) {
	if l, ok := a.([]any); ok {
		n, err := count(name)
		return at(l, int(max(min(n, Limit), -1))-1), err
	}
	s, err := text(name)
	if err != nil {
		return nil, err
	}
	return field(a, s), nil
}

func sorted(a, by any) (any, error) {
	key := func(v any) any { return v }
	if by != nil {
		name, err := text(by)
		if err != nil {
			return nil, err
		}
		key = func(v any) any { return field(v, name) }
	}
	l := slices.Clone(list(a))
	var failed error
	slices.SortStableFunc(l, func(a, b any) int {
		n, err := compare(key(a), key(b))
		if err != nil {
			failed = err
		}
		return n
	})
	return l, failed
}

func compare(a, b any) (int, error) {
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return int(sign(x - y)), nil
		}
	}
	x, isText := a.(string)
	y, alike := b.(string)
	if !isText || !alike {
		return 0, errors.New("what is not alike cannot be compared")
	}
	return strings.Compare(x, y), nil
}

func sign(f float64) float64 {
	switch {
	case f < 0:
		return -1
	case f > 0:
		return 1
	}
	return 0
}

func uniq(a any) any {
	seen := map[string]struct{}{}
	kept := []any{}
	for _, v := range list(a) {
		k := string(appendJSON(nil, v))
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			kept = append(kept, v)
		}
	}
	return kept
}
