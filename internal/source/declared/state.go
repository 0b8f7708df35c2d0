package declared

import (
	"weir/internal/model"
)

// A State is what of a document is in force: objects, each with the revision
// that made it what it is. It is immutable; the zero State is empty.
//
// The created revision of an object is 1, or its place in its section if it has
// no id of its own: the state depends on the document alone, not on the order of
// the edits that led to it, so that a restart changes nothing.
type State struct {
	Revision int64
	order    []model.Key
	entries  map[model.Key]Entry
}

// An Entry is an object in force.
type Entry struct {
	*model.Object
	Digest Digest
}

// Get returns an object of the state.
func (s *State) Get(k model.Key) (Entry, bool) {
	e, ok := s.entries[k]
	return e, ok
}

// Len is the number of objects.
func (s *State) Len() int { return len(s.entries) }

// Next returns the state that items make after s, at the next revision, or s if
// that is the same. An object whose content is the same stays what it is. Of
// several items with one key the last counts.
func (s *State) Next(items []Item) *State {
	next := &State{Revision: s.Revision + 1, entries: make(map[model.Key]Entry, len(items))}
	same := true
	for _, it := range items {
		if _, twice := next.entries[it.Key]; !twice {
			next.order = append(next.order, it.Key)
		}
		next.entries[it.Key] = s.entry(it, next.Revision)
	}
	for k, e := range next.entries {
		same = same && s.entries[k].Object == e.Object
	}
	if same && len(next.entries) == len(s.entries) && s.Revision > 0 {
		return s
	}
	return next
}

// Section returns the objects of a section as Items that change nothing.
func (s *State) Section(section model.Kind) (items []Item) {
	for _, k := range s.order {
		if k.Kind != section && !(k.Kind == model.KindCredential && section == model.KindConsumer) {
			continue
		}
		e := s.entries[k]
		items = append(items, Item{Key: k, Section: section, Index: int(e.Created) - 1, Raw: e.Raw, Digest: e.Digest, Fault: e.Fault})
	}
	return items
}

func (s *State) entry(it Item, revision int64) Entry {
	created := int64(1)
	if it.Own == nil && it.Index >= 0 {
		created = int64(it.Index) + 1
	}
	old, had := s.entries[it.Key]
	if had && old.Digest == it.Digest && old.Created == created {
		return old
	}
	return Entry{&model.Object{Key: it.Key, Created: created, Modified: revision, Raw: it.Raw, Fault: it.Fault}, it.Digest}
}

// Since is the step from an earlier state to this one. A nil state is empty.
func (s *State) Since(old *State) model.Delta {
	d := model.Delta{Revision: s.Revision}
	if old == nil {
		old = &State{}
	}
	for _, k := range s.order {
		if e := s.entries[k]; old.entries[k].Object != e.Object {
			d.Put = append(d.Put, *e.Object)
		}
	}
	for _, k := range old.order {
		if _, there := s.entries[k]; !there {
			d.Del = append(d.Del, k)
		}
	}
	return d
}
