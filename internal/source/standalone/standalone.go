// Package standalone is the configuration that clients replace as one document
// through the Admin API (apisix-admin.md section 11). The document is kept on
// disk: what was acknowledged outlives the process.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
)

// The members of a document that say which version of it this is; they are
// also headers of answers.
const (
	LastModified = "X-Last-Modified" // seconds since 1970
	DigestName   = "X-Digest"        // made by the client
)

// A Config says where the document is kept and what may be in it.
type Config struct {
	Dir     string            // for files; it is made, and taken for this process
	Checker *declared.Checker // of every item, with Versioned
	Now     func() time.Time  // default time.Now
	Log     *slog.Logger      // default: none
}

// A Document is a whole configuration as clients see it. It is not to be
// changed.
type Document struct {
	// Value has for every section its version, "routes_conf_version", and unless
	// it is empty its items, and at last X-Last-Modified and X-Digest, before the
	// first push neither.
	Value        *document.Value
	Digest       string
	LastModified string
	Revision     int64 // of the process; the document is live when it is served
}

// The reasons for which a push is not carried out, beside *Refused and failures
// to store it.
var (
	// ErrSame: the digest is the one of the document that is there.
	ErrSame = errors.New("the digest is the same")
	// ErrClosed: the source is closed.
	ErrClosed = errors.New("standalone: closed")
)

// Refused says what is wrong with a document, in words for the client.
type Refused struct{ Reason error }

func (r *Refused) Error() string { return r.Reason.Error() }

// A Source holds the document. Its methods may be called from many goroutines;
// Run may be called by one at a time.
type Source struct {
	cfg  Config
	lock *os.File
	news chan struct{} // holds a token while there is a state to deliver

	pushing sync.Mutex // one push at a time
	checked bool       // what is in force was checked by this process

	mu     sync.Mutex
	doc    *Document
	state  *declared.State
	closed bool
}

// Open reads the document in the directory; without one it is empty.
func Open(cfg Config) (*Source, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("standalone: %w", err)
	}
	s := &Source{cfg: cfg, lock: lock, news: make(chan struct{}, 1)}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("standalone: %w", errors.Join(err, lock.Close()))
	}
	s.news <- struct{}{}
	return s, nil
}

// Close frees the directory. Run must have returned; a push that is being
// stored is finished, later ones fail.
func (s *Source) Close() error {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.lock.Close()
}

// Current returns the document.
func (s *Source) Current() *Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc
}

func (s *Source) current() (*Document, *declared.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc, s.state
}

// Run delivers the objects of the document until ctx ends, and then returns
// nil: first all of them, then what has changed. An error of apply ends Run with
// that error.
func (s *Source) Run(ctx context.Context, apply func(model.Delta) error) error {
	var delivered *declared.State
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.news:
		}
		_, state := s.current()
		if state == delivered {
			continue
		}
		d := state.Since(delivered)
		if err := apply(d); err != nil {
			return fmt.Errorf("apply revision %d: %w", d.Revision, err)
		}
		delivered = state
		s.cfg.Log.Info("configuration: delivered", "objects", state.Len(), "put", len(d.Put), "deleted", len(d.Del), "revision", d.Revision)
	}
}

// Push replaces the document. When it returns without an error the document is
// on disk, and live once the gateway serves its revision. The document becomes
// part of the source and is not to be changed any more.
func (s *Source) Push(digest string, doc *document.Value) (*Document, error) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	old, state := s.current()
	if old.Digest == digest && old.LastModified != "" {
		return nil, ErrSame
	}
	pass := func(it declared.Item) bool {
		e, had := state.Get(it.Key)
		return had && e.Digest == it.Digest && it.Version == nil && s.checked
	}
	if p := s.cfg.Checker.Validate(doc, false, pass); len(p) > 0 {
		return nil, &Refused{p[0].Err}
	}
	value, err := replace(old.Value, doc)
	if err != nil {
		return nil, &Refused{err}
	}
	modified := strconv.FormatInt(s.cfg.Now().Unix(), 10)
	value.Set(LastModified, &document.Value{Kind: document.Number, Text: modified})
	value.Set(DigestName, document.NewString(digest))

	items, kept := inForce(value, old.Value, state)
	next := &Document{Value: value, Digest: digest, LastModified: modified}
	nextState := state.Next(items)
	next.Revision = nextState.Revision
	if err := s.save(value, kept); err != nil {
		return nil, fmt.Errorf("standalone: %w", err)
	}
	s.mu.Lock()
	s.doc, s.state = next, nextState
	s.mu.Unlock()
	s.checked = true
	select {
	case s.news <- struct{}{}:
	default:
	}
	return next, nil
}

// replace returns the document that doc makes of old. A section without a
// version gets the next one. One with the version that is there stays as it is,
// whatever doc says of it; one with a lower version is an error.
func replace(old, doc *document.Value) (*document.Value, error) {
	next := document.NewObject()
	for _, section := range declared.Sections() {
		name := section.Dir()
		was, err := declared.SectionVersion(old, section)
		if err != nil {
			return nil, err
		}
		version, err := declared.SectionVersion(doc, section)
		switch {
		case err != nil:
			return nil, err
		case math.IsNaN(version):
			version = was + 1
		case version < was:
			return nil, fmt.Errorf("%s%s must be greater than or equal to (%s)", name, declared.VersionSuffix, number(was))
		}
		from := doc
		if version == was {
			from = old
		}
		if items := from.Get(name); items.Is(document.Array) && len(items.Items) > 0 {
			next.Set(name, items)
		}
		next.Set(name+declared.VersionSuffix, &document.Value{Kind: document.Number, Text: number(version)})
	}
	return next, nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// blank is the document before the first push.
func blank() *document.Value {
	v := document.NewObject()
	for _, section := range declared.Sections() {
		v.Set(section.Dir()+declared.VersionSuffix, document.NewInt(0))
	}
	return v
}

// inForce returns the objects of a document that follows another. An item whose
// own version is the one that is in force is not looked at: what is in force
// stays, and is returned a second time in kept if it is not what the item says.
func inForce(doc, old *document.Value, state *declared.State) (items, kept []declared.Item) {
	versions := map[model.Key]string{}
	for _, it := range declared.Items(old) {
		versions[it.Key] = version(old, it)
	}
	for _, it := range declared.Items(doc) {
		if it.Section == model.KindPlugins {
			continue // the list of plugins is that of config.yaml
		}
		e, had := state.Get(it.Key)
		if had && it.Digest != e.Digest && stays(doc, old, it, versions[it.Key]) {
			it.Raw, it.Digest = e.Raw, e.Digest
			kept = append(kept, it)
		}
		items = append(items, it)
	}
	return items, kept
}

// stays says that the item of a new document does not replace the object in
// force, which has a version.
func stays(doc, old *document.Value, it declared.Item, inForce string) bool {
	name := it.Section.Dir() + declared.VersionSuffix
	if doc.Get(name).Text == old.Get(name).Text {
		return true // the section as a whole is what it was
	}
	return it.Version != nil && version(doc, it) == inForce
}

// version is an item's own version or that of its section.
func version(doc *document.Value, it declared.Item) string {
	v := it.Version
	if v == nil {
		v = doc.Get(it.Section.Dir() + declared.VersionSuffix)
	}
	if f, err := strconv.ParseFloat(v.Text, 64); err == nil {
		return number(f)
	}
	return v.Text
}
