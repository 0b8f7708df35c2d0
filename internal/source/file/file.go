// Package file is the configuration in a file next to config.yaml, apisix.yaml
// or apisix.json (apisix-config.md section 3). The file is watched; a change is
// delivered object by object, so that what is the same in the new file stays
// what it is in the gateway.
package file

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/source/declared"
)

// A Config says which file is read and how.
type Config struct {
	Path   string // ends in .json if it is JSON, otherwise it is YAML
	Lookup Lookup // environment variables; nil: there are none

	// Check reports what is wrong with an object. What it finds depends on the
	// object alone. nil: nothing is.
	Check func(declared.Item) error

	Every time.Duration // between two looks at the file; default 200 ms
	Log   *slog.Logger  // default: none
}

// A Source delivers the objects of a file.
type Source struct {
	cfg Config

	// What the goroutine of Run knows.
	info  os.FileInfo // of the text that was read last; nil: none was
	at    time.Time   // when it was read
	text  declared.Digest
	state *declared.State

	mu     sync.Mutex
	status Status
}

// A Status is how far the delivery is.
type Status struct {
	Revision int64            // counts the states of this process; 0: none was delivered
	Problem  string           // why the file as it is now is not in force; empty: it is
	Skipped  map[string]error // what in the file is no object, by path
}

// New returns a source. Nothing is read yet.
func New(cfg Config) *Source {
	if cfg.Lookup == nil {
		cfg.Lookup = func(string) (string, bool) { return "", false }
	}
	if cfg.Check == nil {
		cfg.Check = func(declared.Item) error { return nil }
	}
	if cfg.Every <= 0 {
		cfg.Every = 200 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg, state: new(declared.State)}
}

// Load reads the file once. It returns its objects, the broken ones with what is
// wrong with them, and why the rest is no object. The error says where the text
// cannot be read.
func Load(cfg Config) (items []declared.Item, skipped map[string]error, err error) {
	s := New(cfg)
	text, err := os.ReadFile(cfg.Path)
	if err != nil {
		return nil, nil, err
	}
	doc, err := s.parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	items, skipped = s.admit(doc)
	return items, skipped, nil
}

// Status returns the state of the delivery.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run delivers the objects of the file until ctx ends, and then returns nil:
// first all of them, then what has changed. The first delivery waits for a file
// that can be read; a later one that cannot leaves everything as it is. A broken
// object is delivered with its fault: in its place nothing less specific may
// answer. What is no object, or has no name, is left out. An error of apply ends
// Run with that error.
func (s *Source) Run(ctx context.Context, apply func(model.Delta) error) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		if err := s.look(apply); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look delivers what has changed since the last look.
func (s *Source) look(apply func(model.Delta) error) error {
	text, err := s.changed()
	if err != nil {
		s.broken(err)
		return nil
	}
	if text == nil {
		return nil
	}
	doc, err := s.parse(text)
	if err != nil {
		s.broken(fmt.Errorf("%s: %w", s.cfg.Path, err))
		return nil
	}
	items, skipped := s.admit(doc)
	next := s.state.Next(items)
	if next != s.state {
		d := next.Since(s.state)
		if err := apply(d); err != nil {
			return fmt.Errorf("apply revision %d of %s: %w", next.Revision, s.cfg.Path, err)
		}
		s.cfg.Log.Info("configuration file: read", "path", s.cfg.Path, "objects", next.Len(),
			"put", len(d.Put), "deleted", len(d.Del), "skipped", len(skipped), "revision", next.Revision)
	}
	s.state = next
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = Status{Revision: next.Revision, Skipped: skipped}
	return nil
}

// racy is how coarse the time stamps of file systems are. A file that was read
// sooner after its last change than this may have been changed once more
// without one being able to see it.
const racy = 2 * time.Second

// changed returns the text of the file if it is another one than last time.
func (s *Source) changed() ([]byte, error) {
	info, err := os.Stat(s.cfg.Path)
	if err != nil {
		s.info = nil
		return nil, err
	}
	same := s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
	if same && s.at.Sub(info.ModTime()) > racy {
		return nil, nil
	}
	now := time.Now()
	text, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		s.info = nil
		return nil, err
	}
	first := s.info == nil
	s.info, s.at = info, now
	digest := sha256.Sum256(text)
	if digest == s.text && !first {
		return nil, nil
	}
	s.text = digest
	return text, nil
}

// broken notes why the file is not in force, and logs it when that is news.
func (s *Source) broken(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Problem == err.Error() {
		return
	}
	s.status.Problem = err.Error()
	s.cfg.Log.Error("configuration file: not read, what was read before stays in force", "err", err)
}
