package document

import (
	"fmt"
	"strings"
)

// Merge changes the object v by patch, as the Admin API's PATCH does: objects
// merge, null removes a member, everything else replaces. Unlike RFC 7396 a
// null inside a new object stays. The result shares values with patch.
func (v *Value) Merge(patch *Value) {
	for _, m := range patch.Members {
		old := v.Get(m.Name)
		switch {
		case m.Value.Is(Null):
			v.Delete(m.Name)
		case m.Value.Is(Object) && old.Is(Object):
			old.Merge(m.Value)
		default:
			v.Set(m.Name, m.Value)
		}
	}
}

// SetPath puts value at a path of member names separated by slashes, makes the
// objects that are missing on the way, and returns the new document. A path
// that ends in a slash means the whole document. It fails with
// "invalid sub-path: /a/b" where the path leads through what is no object.
func (v *Value) SetPath(path string, value *Value) (*Value, error) {
	names := strings.Split(path, "/")
	last := len(names) - 1
	at := v
	for i, name := range names {
		if !at.Is(Object) {
			return nil, fmt.Errorf("invalid sub-path: /%s", strings.Join(names[:max(i, 1)], "/"))
		}
		if i == last {
			break
		}
		next := at.Get(name)
		if next == nil {
			next = NewObject()
			at.Set(name, next)
		}
		at = next
	}
	if names[last] == "" {
		return value, nil
	}
	at.Set(names[last], value)
	return v, nil
}

// Strings calls edit for every string that lies at a dotted path below the
// object v, and puts what it returns in its place. An array on the way is
// gone through; at the end of the path there may be a string, an array of
// strings or an object of strings.
func (v *Value) Strings(path string, edit func(string) string) {
	name, rest, more := strings.Cut(path, ".")
	at := v.Get(name)
	if at == nil {
		return
	}
	each := func(s *Value) {
		if s.Is(String) {
			s.Text = edit(s.Text)
		}
	}
	if more {
		each = func(s *Value) { s.Strings(rest, edit) }
	}
	switch at.Kind {
	case Array:
		for _, item := range at.Items {
			each(item)
		}
	case Object:
		if more {
			each(at)
			return
		}
		for _, m := range at.Members {
			each(m.Value)
		}
	case String:
		if !more {
			each(at)
		}
	}
}
