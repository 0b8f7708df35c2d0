package file

import (
	"weir/internal/document"
	"weir/internal/source/declared"
)

// admit returns the objects of a file, the broken ones with what is wrong with
// them, and why the rest is no object. An object that is as it was when it was
// read is not read again.
func (s *Source) admit(doc *document.Value) (items []declared.Item, skipped map[string]error) {
	skipped = map[string]error{}
	seen := map[string]bool{}
	for _, it := range declared.Items(doc) {
		path := it.Key.String()
		if err := it.Named(); err != nil {
			skipped[path] = err
			if old := s.Status().Skipped[path]; old == nil || old.Error() != err.Error() {
				s.cfg.Log.Error("configuration file: left out", "item", path, "err", err)
			}
			continue
		}
		if seen[path] {
			s.cfg.Log.Warn("configuration file: id is there more than once, the last object counts", "object", path)
		}
		seen[path] = true
		if old, had := s.state.Get(it.Key); had && old.Digest == it.Digest {
			it.Fault = old.Fault
		} else {
			it.Fault = s.cfg.Check(it)
		}
		items = append(items, it)
	}
	return items, skipped
}
