//go:build !race

package saved

import (
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"weir/internal/model"
)

// TestWholeLeavesNoGarbage: the text of a large state is not memory of its size, which
// the process would keep.
func TestWholeLeavesNoGarbage(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "state"))
	close(c.stop) // no rests
	const objects = 20_000
	o := object("a", 1, `{"uri":"/`+strings.Repeat("x", 1000)+`"}`)
	c.whole = func() (int64, iter.Seq[model.Object]) {
		return 1, func(yield func(model.Object) bool) {
			for range objects {
				if !yield(o) {
					return
				}
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.fold(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / objects; each > 200 {
		t.Errorf("%d bytes were allocated for an object of %d", each, len(o.Raw))
	}
	if err := c.out.close(); err != nil {
		t.Error(err)
	}
}
