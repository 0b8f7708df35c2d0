package etcd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// known is what a map of strings would be, however much comes and goes.
func TestKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	k, want := newKnown(0), map[string]mark{}
	for i := range 20_000 {
		path := fmt.Sprint("routes/", rng.IntN(500), "-")
		if i%3 == 0 {
			path = "" // a path of no length is one, too
		}
		if rng.IntN(5) < 2 {
			k.set(path, mark(i+1))
			want[path] = mark(i + 1)
		} else {
			k.del(path)
			delete(want, path)
		}
		if m, ok := k.get(path); ok != (want[path] != 0) || m != want[path] {
			t.Fatalf("%q: %d %v, want %d", path, m, ok, want[path])
		}
		if limit := 64 + 4*len("routes/500-")*max(len(want), 1); len(k.paths) > limit {
			t.Fatalf("%d bytes of paths are kept for %d", len(k.paths), len(want))
		}
	}
	got := map[string]mark{}
	for path := range k.all() {
		got[path], _ = k.get(path)
	}
	if !maps.Equal(got, want) || k.len() != len(want) {
		t.Errorf("%d paths, want %d", len(got), len(want))
	}
}
