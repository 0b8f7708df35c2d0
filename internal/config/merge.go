package config

import (
	"fmt"
	"strings"
)

// merge lays the user's table over base, which it changes: tables are merged
// key by key, lists replace, null removes, and a scalar must have the type of
// the default it replaces.
func merge(base, user *node, path string) error {
	for i, key := range user.keys {
		at := join(path, key)
		old, value := base.get(key), user.nodes[i]
		switch {
		case value.kind == null:
			base.set(key, nil)
		case old == nil:
			base.set(key, value)
		case old.kind == table && value.kind == table:
			if err := merge(old, value, at); err != nil {
				return err
			}
		case compatible(old, value, at):
			base.set(key, value)
		default:
			return mismatch("failed to merge, ", at, old.kind.String(), value)
		}
	}
	return nil
}

func compatible(old, value *node, path string) bool {
	if old.kind.String() == value.kind.String() {
		return true
	}
	scalar := value.kind == number || value.kind == text
	switch {
	case strings.HasPrefix(path, "nginx_config->"):
		return scalar && (old.kind == number || old.kind == text)
	case path == "apisix->node_listen":
		return value.kind == number
	case path == "apisix->data_encryption->keyring":
		return value.kind == text
	}
	return strings.HasPrefix(path, "weir->") && scalar // a duration: 5 or 5s
}

func mismatch(prefix, path, want string, got *node) error {
	is := got.kind.String()
	if is == want { // Lua has one word for both
		if want, is = "list", "table of keys"; got.kind == list {
			want, is = is, want
		}
	}
	return fmt.Errorf("%spath[%s] expect: %s, but got: %s%s", prefix, path, want, is, place(got))
}

func place(n *node) string {
	if n.line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d)", n.line)
}
