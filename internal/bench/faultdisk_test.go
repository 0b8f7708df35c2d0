package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Who writes to a disk that stands still waits until it runs.
func TestFreeze(t *testing.T) {
	if err := needLoop(nil); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "at")
	if err := mountLoop(filepath.Join(dir, "image"), at, 16<<20); err != nil {
		t.Fatal(err)
	}
	defer run("umount", at)
	if err := freeze(at); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(filepath.Join(at, "file"), []byte("x"), 0o600) }()
	select {
	case err := <-written:
		t.Error("written meanwhile:", err)
		written <- err
	case <-time.After(100 * time.Millisecond):
	}
	if err := thaw(at); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
