package plugin

import (
	"errors"
	"sync"
)

// Files are what plugins write, to be opened anew after a rotation. The zero
// Files is empty and ready.
type Files struct {
	mu     sync.Mutex
	last   int
	reopen map[int]func() error
}

// Add makes reopen a part of Reopen until remove is called.
func (f *Files) Add(reopen func() error) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reopen == nil {
		f.reopen = map[int]func() error{}
	}
	f.last++
	id := f.last
	f.reopen[id] = reopen
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.reopen, id)
	}
}

// Reopen opens all files anew. Its error joins those of the files that could not
// be opened.
func (f *Files) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, reopen := range f.reopen {
		errs = append(errs, reopen())
	}
	return errors.Join(errs...)
}
