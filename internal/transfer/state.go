// Package transfer moves configuration between what can hold it: a running
// gateway's Admin API, an etcd, and files. It reads each of them into one form,
// compares, applies differences, and says of a configuration of APISIX what
// would behave differently in Weir.
package transfer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
)

// A State is a whole configuration, in one form whatever it was read from: the
// id of an object is in its key and not in its document, and create_time and
// update_time, which belong to the store, are left out. Secrets are as they were
// where the State came from.
type State struct {
	Objects map[model.Key]*document.Value

	// Broken are values that are not JSON objects, and why. They are in no other
	// part of the State; APISIX skips them, too.
	Broken map[model.Key]string

	// Absent are the kinds that the place cannot have, and why.
	Absent map[model.Kind]string

	// Notes say what a user should know of the reading, for instance what the
	// place does not give out.
	Notes []string
}

func newState() *State {
	return &State{Objects: map[model.Key]*document.Value{}, Broken: map[model.Key]string{}, Absent: map[model.Kind]string{}}
}

func (s *State) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// put takes a document as a place holds it and brings it into the form of a
// State. The document becomes the State's.
func (s *State) put(key model.Key, v *document.Value) {
	if v.Is(document.Object) {
		for _, name := range []string{"id", "create_time", "update_time", "modifiedIndex"} {
			v.Delete(name)
		}
		if key.Kind == model.KindConsumer {
			v.SetFirst("username", document.NewString(key.ID))
		}
	}
	s.Objects[key] = v
}

// putRaw is put for a stored text.
func (s *State) putRaw(key model.Key, raw []byte) {
	v, err := document.Parse(raw)
	switch {
	case err != nil:
		s.Broken[key] = err.Error()
	case key.Kind != model.KindPlugins && !v.Is(document.Object):
		s.Broken[key] = fmt.Sprintf("it is of type %v, not object", v.Kind)
	default:
		s.put(key, v)
	}
}

// Keys are the keys of the objects, by kind and then in byte order of their
// ids.
func (s *State) Keys() []model.Key { return slices.SortedFunc(maps.Keys(s.Objects), compareKeys) }

func compareKeys(a, b model.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
}

// Counts are the numbers of objects by kind.
func (s *State) Counts() (counts [model.KindCount]int) {
	for k := range s.Objects {
		counts[k.Kind]++
	}
	return counts
}

// With is the State after changes.
func (s *State) With(changes []Change) *State {
	next := newState()
	maps.Copy(next.Objects, s.Objects)
	for _, c := range changes {
		if c.Action == Deleted {
			delete(next.Objects, c.Key)
		} else {
			next.Objects[c.Key] = c.to
		}
	}
	return next
}

// withID returns a copy of an object's document that carries its id as the
// standalone file does: credentials with their consumer, secrets with their
// manager, consumers by their name alone.
func withID(key model.Key, v *document.Value) *document.Value {
	out := clone(v)
	if key.Kind != model.KindConsumer && out.Is(document.Object) {
		out.SetFirst("id", document.NewString(key.ID))
	}
	return out
}

// clone copies a value deeply.
func clone(v *document.Value) *document.Value {
	out := &document.Value{Kind: v.Kind, Text: v.Text}
	if v.Items != nil {
		out.Items = make([]*document.Value, len(v.Items))
		for i, item := range v.Items {
			out.Items[i] = clone(item)
		}
	}
	if v.Members != nil {
		out.Members = make([]document.Member, len(v.Members))
		for i, m := range v.Members {
			out.Members[i] = document.Member{Name: m.Name, Value: clone(m.Value)}
		}
	}
	return out
}

// dotted returns what lies at a dotted path, or nil.
func dotted(v *document.Value, path string) *document.Value {
	for name := range strings.SplitSeq(path, ".") {
		v = v.Get(name)
	}
	return v
}
