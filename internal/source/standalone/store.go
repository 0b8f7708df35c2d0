package standalone

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"weir/internal/document"
	"weir/internal/durable"
	"weir/internal/source/declared"
)

// fileName is where the document is kept: a JSON object with the document as
// clients see it and the objects in force that differ from it, by path.
const (
	fileName  = "configs.json"
	temporary = ".configs-*" // a file in the making
)

const (
	memberDocument = "document"
	memberKept     = "kept"
)

// lockDir makes the directory and takes it for this process, as the embedded
// store does. The lock is the kernel's: it does not outlive the process.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no data directory is configured")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("in use by another process")
		}
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return f, nil
}

// load reads the document. It was checked when it was pushed; an object that no
// longer runs is the business of whoever applies it.
func (s *Source) load() error {
	path := filepath.Join(s.cfg.Dir, fileName)
	left, err := filepath.Glob(filepath.Join(s.cfg.Dir, temporary))
	for _, f := range left {
		err = errors.Join(err, os.Remove(f)) // of a process that was killed
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.doc, s.state = &Document{Value: blank(), Revision: 1}, new(declared.State).Next(nil)
		return nil
	}
	if err != nil {
		return err
	}
	stored, err := document.Parse(text)
	if err != nil {
		return fmt.Errorf("%s is damaged, remove it to start without a configuration: %w", path, err)
	}
	value := stored.Get(memberDocument)
	modified, isDocument := value.Get(LastModified).Scalar()
	digest, hasDigest := value.Get(DigestName).Scalar()
	if !isDocument || !hasDigest {
		return fmt.Errorf("%s is damaged, remove it to start without a configuration: it holds no document", path)
	}
	items, _ := inForce(value, blank(), new(declared.State))
	for i := range items {
		if v := stored.Get(memberKept).Get(items[i].Key.String()); v != nil {
			items[i].Raw = v.Append(nil)
			items[i].Digest = sha256.Sum256(items[i].Raw)
		}
	}
	s.state = new(declared.State).Next(items)
	s.doc = &Document{Value: value, Digest: digest, LastModified: modified, Revision: s.state.Revision}
	return nil
}

// save replaces the file. Once it returns, the new one is there after a loss of
// power; before, the old one or the new one is.
func (s *Source) save(doc *document.Value, kept []declared.Item) error {
	objects := document.NewObject()
	for _, it := range kept {
		v, err := document.Parse(it.Raw)
		if err != nil {
			return fmt.Errorf("%s: %w", it.Key, err)
		}
		objects.Set(it.Key.String(), v)
	}
	file := document.NewObject()
	file.Set(memberDocument, doc)
	file.Set(memberKept, objects)
	return replaceFile(filepath.Join(s.cfg.Dir, fileName), append(file.Append(nil), '\n'))
}

func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporary) // has mode 0600
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = durable.Rename(f, path)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // not there if only what follows the rename has failed
	}
	return err
}
