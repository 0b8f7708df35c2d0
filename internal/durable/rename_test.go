package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	create := func(text string) *os.File {
		f, err := os.Create(filepath.Join(dir, "new"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f
	}
	holds := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
	}
	f := create("one")
	if err := Rename(f, path); err != nil {
		t.Fatal(err)
	}
	holds("one")
	if _, err := f.WriteString(" more"); err != nil {
		t.Fatal(err)
	}
	holds("one more")
	// What cannot be synced takes nobody's place.
	unsynced := create("two")
	unsynced.Close()
	if err := Rename(unsynced, path); err == nil {
		t.Error("a closed file was synced")
	}
	holds("one more")
}
