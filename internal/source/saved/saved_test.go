package saved

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/model"
)

func object(id string, rev int64, raw string) model.Object {
	return model.Object{Key: model.Key{Kind: model.KindRoute, ID: id}, Created: 1, Modified: rev, Raw: []byte(raw)}
}

// Whatever is written is what is read, also after the file was folded and after
// its last line was cut.
func TestRandomSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "data", "copy")
	c := New(path)
	want := map[model.Key]model.Object{}
	if err := c.Begin(model.Delta{Revision: 1}); err != nil {
		t.Fatal(err)
	}
	folded := false
	for rev := int64(2); rev < 400; rev++ {
		d := model.Delta{Revision: rev}
		o := object(fmt.Sprint(r.IntN(20)), rev, fmt.Sprintf(`{"n":%d,"pad":"%0*d"}`, rev, r.IntN(20000), 0))
		if _, had := want[o.Key]; had && r.IntN(3) == 0 {
			d.Del = append(d.Del, o.Key)
			delete(want, o.Key)
		} else {
			d.Put = append(d.Put, o)
			want[o.Key] = o
		}
		before := c.size
		if err := c.Add(d); err != nil {
			t.Fatal(err)
		}
		folded = folded || c.size < before
	}
	if !folded {
		t.Error("the file was never folded")
	}
	if err := c.Close(400); err != nil {
		t.Fatal(err)
	}
	check := func(revision int64) {
		t.Helper()
		d, at, err := New(path).Load()
		if err != nil || d.Revision != revision || time.Since(at) > time.Hour {
			t.Fatalf("revision %d at %v: %v", d.Revision, at, err)
		}
		got := map[model.Key]model.Object{}
		for _, o := range d.Put {
			got[o.Key] = o
		}
		if !maps.EqualFunc(got, want, func(a, b model.Object) bool {
			return a.Key == b.Key && a.Created == b.Created && a.Modified == b.Modified && bytes.Equal(a.Raw, b.Raw)
		}) {
			t.Errorf("%d objects, want %d", len(got), len(want))
		}
	}
	check(400)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"t":"2026-11-30T00:00:00Z","revision":401,"put":[{"Ki`)
	f.Close()
	check(400)
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
	for _, n := range []int{999, 1000, 1001, 3000} {
		c := New(filepath.Join(t.TempDir(), "copy"))
		d := model.Delta{Revision: 7}
		for i := range n {
			d.Put = append(d.Put, model.Object{Key: model.Key{Kind: model.KindConsumer, ID: fmt.Sprint(i)}, Raw: []byte("{}")})
		}
		if err := c.Begin(d); err != nil {
			t.Fatal(err)
		}
		got, _, err := c.Load()
		if err != nil || len(got.Put) != n || got.Revision != 7 {
			t.Errorf("%d objects at %d, want %d: %v", len(got.Put), got.Revision, n, err)
		}
		if err := c.Close(7); err != nil {
			t.Error(err)
		}
	}
}

// FuzzLoad: what is read is what is read again after it was written anew.
func FuzzLoad(f *testing.F) {
	f.Add(`{"t":"2026-01-02T03:04:05Z","revision":7,"put":[{"key":{"kind":"routes","id":"a"},"raw":{"a":1}}]}` + "\n" + `{"revision":8,"del":[{"kind":"routes","id":"a"}]}` + "\n")
	c := New(filepath.Join(f.TempDir(), "seed"))
	if err := c.Begin(model.Delta{Revision: 3, Put: []model.Object{object("a", 1, `{"a":"b"}`), object("b", 2, `{}`)}}); err != nil {
		f.Fatal(err)
	}
	if err := c.Close(4); err != nil {
		f.Fatal(err)
	}
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
		if err := c.Begin(first); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := c.Close(first.Revision); err != nil {
			t.Fatal(err)
		}
		second, _, err := New(path).Load()
		same := maps.EqualFunc(byKey(first), byKey(second), func(a, b model.Object) bool {
			return a.Key == b.Key && a.Created == b.Created && a.Modified == b.Modified && sameJSON(a.Raw, b.Raw)
		})
		if err != nil || second.Revision != first.Revision || !same {
			t.Errorf("%q: %+v, then %+v, %v", text, first, second, err)
		}
	})
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
