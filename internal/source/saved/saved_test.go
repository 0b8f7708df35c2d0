package saved

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/model"
)

func object(id string, rev int64, raw string) model.Object {
	return model.Object{Key: model.Key{Kind: model.KindRoute, ID: id}, Created: 1, Modified: rev, Raw: []byte(raw)}
}

// A world is a state and its copy.
type world struct {
	t        *testing.T
	c        *Copy
	path     string
	mu       sync.Mutex
	revision int64
	state    map[model.Key]model.Object
	wholes   atomic.Int64 // how often all of it was written
	failures atomic.Int64
}

func newWorld(t *testing.T, path string) *world {
	return &world{t: t, c: New(path), path: path, state: map[model.Key]model.Object{}}
}

func (w *world) follow() {
	w.c.Follow(func() (int64, iter.Seq[model.Object]) {
		w.wholes.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.revision, maps.Values(maps.Clone(w.state))
	}, func(error) { w.failures.Add(1) })
}

// step changes the state and tells the copy.
func (w *world) step(d model.Delta) {
	w.mu.Lock()
	w.revision++
	d.Revision = w.revision
	for _, o := range d.Put {
		w.state[o.Key] = o
	}
	for _, k := range d.Del {
		delete(w.state, k)
	}
	w.mu.Unlock()
	w.c.Add(d)
}

func (w *world) close() {
	w.t.Helper()
	if err := w.c.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// check reads the file.
func (w *world) check() {
	w.t.Helper()
	d, at, err := New(w.path).Load()
	if err != nil || d.Revision != w.revision || time.Since(at) > time.Hour {
		w.t.Fatalf("revision %d, want %d, at %v: %v", d.Revision, w.revision, at, err)
	}
	got := map[model.Key]model.Object{}
	for _, o := range d.Put {
		got[o.Key] = o
	}
	if !maps.EqualFunc(got, w.state, func(a, b model.Object) bool {
		return a.Key == b.Key && a.Created == b.Created && a.Modified == b.Modified && bytes.Equal(a.Raw, b.Raw)
	}) {
		w.t.Errorf("%d objects, want %d", len(got), len(w.state))
	}
}

// drained waits until the copy has taken what it was told.
func (w *world) drained() {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		w.c.mu.Lock()
		n := len(w.c.pending)
		w.c.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			w.t.Fatal("nothing is written")
		}
	}
}

// Whatever is written is what is read, also after the file was written anew and
// after its last line was cut.
func TestRandomSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := newWorld(t, filepath.Join(t.TempDir(), "data", "copy"))
	w.follow()
	for rev := range 400 {
		o := object(fmt.Sprint(r.IntN(20)), int64(rev), fmt.Sprintf(`{"n":%d,"pad":"%0*d"}`, rev, r.IntN(20000), 0))
		if _, had := w.state[o.Key]; had && r.IntN(3) == 0 {
			w.step(model.Delta{Del: []model.Key{o.Key}})
		} else {
			w.step(model.Delta{Put: []model.Object{o}})
		}
		if r.IntN(10) == 0 {
			w.drained()
		}
	}
	w.close()
	if w.wholes.Load() < 4 { // the first, the last asks for the revision only
		t.Error("the file was never written anew")
	}
	w.check()
	if info, err := os.Stat(w.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	f, err := os.OpenFile(w.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"t":"2026-11-30T00:00:00Z","revision":401,"put":[{"Ki`)
	f.Close()
	w.check()
}

// Whoever tells of a step does not wait for the disk, however large the state, and
// what is kept for the disk is bounded.
func TestSlowDisk(t *testing.T) {
	w := newWorld(t, filepath.Join(t.TempDir(), "copy"))
	gate := make(chan struct{})
	began := make(chan struct{}, 1)
	w.c.Follow(func() (int64, iter.Seq[model.Object]) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-gate
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.revision, maps.Values(maps.Clone(w.state))
	}, func(err error) { t.Error(err) })
	<-began
	const each = 1000
	for i := range mostBehind/each + 10 {
		d := model.Delta{}
		for n := range each {
			d.Put = append(d.Put, object(fmt.Sprint(i, n), int64(i), "{}"))
		}
		w.step(d)
	}
	w.c.mu.Lock()
	if w.c.pending != nil || !w.c.missed {
		t.Errorf("%d steps are kept", len(w.c.pending))
	}
	w.c.mu.Unlock()
	close(gate)
	w.close()
	w.check()
}

// What cannot be written is tried again, and the file of before stays.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy")
	w := newWorld(t, path)
	w.follow()
	w.step(model.Delta{Put: []model.Object{object("a", 1, "{}")}})
	w.close()
	w.check()
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	w.c = New(path)
	w.follow()
	for w.failures.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	w.check()
	if err := os.Remove(path + ".new"); err != nil {
		t.Fatal(err)
	}
	w.step(model.Delta{Put: []model.Object{object("b", 2, "{}")}})
	w.close()
	w.check()
}

func TestLoadRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy")
	if _, _, err := New(path).Load(); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("rubbish\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, _, err := New(path).Load(); err == nil {
		t.Errorf("%+v", d)
	}
}

// A large state is written in parts and read as one.
func TestParts(t *testing.T) {
	for _, n := range []int{0, part - 1, part, part + 1, 3 * part} {
		w := newWorld(t, filepath.Join(t.TempDir(), "copy"))
		for i := range n {
			o := object(fmt.Sprint(i), 1, "{}")
			w.state[o.Key] = o
		}
		w.follow()
		w.close()
		w.check()
	}
}

// FuzzLoad: what is read is what is read again after it was written anew.
func FuzzLoad(f *testing.F) {
	f.Add(`{"t":"2026-01-02T03:04:05Z","revision":7,"put":[{"key":{"kind":"routes","id":"a"},"raw":{"a":1}}]}` + "\n" + `{"revision":8,"del":[{"kind":"routes","id":"a"}]}` + "\n")
	c := New(filepath.Join(f.TempDir(), "seed"))
	keep(f, c, model.Delta{Revision: 3, Put: []model.Object{object("a", 1, `{"a":"b"}`), object("b", 2, `{}`)}})
	seed, err := os.ReadFile(c.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add(string(seed[:len(seed)-9]))
	byKey := func(d model.Delta) map[model.Key]model.Object {
		m := map[model.Key]model.Object{}
		for _, o := range d.Put {
			m[o.Key] = o
		}
		return m
	}
	path := filepath.Join(f.TempDir(), "copy")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := New(path)
		first, _, err := c.Load()
		if err != nil {
			return
		}
		keep(t, c, first)
		second, _, err := New(path).Load()
		same := maps.EqualFunc(byKey(first), byKey(second), func(a, b model.Object) bool {
			return a.Key == b.Key && a.Created == b.Created && a.Modified == b.Modified && sameJSON(a.Raw, b.Raw)
		})
		if err != nil || second.Revision != first.Revision || !same {
			t.Errorf("%q: %+v, then %+v, %v", text, first, second, err)
		}
	})
}

// keep writes a state.
func keep(t testing.TB, c *Copy, d model.Delta) {
	c.Follow(func() (int64, iter.Seq[model.Object]) { return d.Revision, slices.Values(d.Put) }, func(err error) { t.Error(err) })
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// sameJSON compares documents but for how they are written.
func sameJSON(a, b []byte) bool {
	compact := func(raw []byte) string {
		text, err := json.Marshal(json.RawMessage(raw))
		if err != nil {
			return string(raw)
		}
		return string(text)
	}
	return compact(a) == compact(b)
}
