// Package durable puts files in place so that a loss of power leaves the old one or
// the new one, whole.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Rename gives what was written to f, which stays open, the name path. When it returns
// without an error the file is on the disk under that name. What has that name now stays
// if f cannot be brought to the disk.
func Rename(f *os.File, path string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
