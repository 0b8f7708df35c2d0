package file

import (
	"errors"
	"fmt"

	"weir/internal/document"
	"weir/internal/source/declared"
)

var (
	errNoSection = errors.New("there is no section of this name")
	errTwice     = errors.New("another object of the same id comes later, and the last counts")
)

// admit returns the objects of a file, the broken ones with what is wrong with
// them, and why the rest is no object that counts. An object that is as it was
// when it was read is not read again. A section that is no list leaves its
// objects as they were.
func (s *Source) admit(doc *document.Value) (items []declared.Item, skipped map[string]error) {
	skipped = map[string]error{}
	for _, name := range declared.Strays(doc) {
		s.skip(skipped, name, errNoSection)
	}
	seen := map[string]bool{}
	for _, it := range declared.Items(doc) {
		path := it.Key.String()
		if err := it.Named(); err != nil {
			if it.Index < 0 {
				err = fmt.Errorf("%w; the objects of this section stay as they were", err)
				items = append(items, s.state.Section(it.Section)...)
			}
			s.skip(skipped, path, err)
			continue
		}
		if seen[path] {
			s.skip(skipped, path, errTwice)
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

// skip notes why something in the file is no object that counts, and logs it when
// that is news.
func (s *Source) skip(skipped map[string]error, path string, err error) {
	skipped[path] = err
	if old := s.Status().Skipped[path]; old == nil || old.Error() != err.Error() {
		s.cfg.Log.Error("configuration file: left out", "item", path, "err", err)
	}
}
