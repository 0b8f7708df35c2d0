package tls

import (
	"crypto/tls"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// lookEvery is how often files are looked at for a change.
const lookEvery = time.Minute

// Files are a pair that is read again when its files change. Who replaces them
// after a while need not tell the gateway.
type files struct {
	certificate, key string
	log              func(msg string, args ...any)
	current          atomic.Pointer[state]

	mu     sync.Mutex
	seen   [2]stamp
	timer  *time.Timer
	closed bool
}

// A state is what was read.
type state struct {
	pair *tls.Certificate
	err  error
}

// A stamp tells a file from what it was.
type stamp struct {
	modified time.Time
	size     int64
}

// openFiles reads a pair, which all configurations that name it share.
func openFiles(env plugin.Env, certificate, key string) *files {
	return plugin.Keep(env, "tls files "+certificate+"\x00"+key, func() *files {
		f := &files{certificate: certificate, key: key, log: env.Log.Warn}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen = f.stamps()
		f.load()
		f.timer = time.AfterFunc(lookEvery, f.look)
		return f
	})
}

// Close ends the looking.
func (f *files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.timer.Stop()
}

func (f *files) pair() (*tls.Certificate, error) {
	s := f.current.Load()
	return s.pair, s.err
}

// load reads the files. A pair that can be used stays until there is another.
func (f *files) load() {
	pair, err := read(threescale.ReadFile, f.certificate, f.key)
	if old := f.current.Load(); err != nil && old != nil && old.pair != nil {
		f.log("a changed certificate cannot be used; the one before stays", "certificate", f.certificate, "err", err)
		return
	}
	f.current.Store(&state{pair, err})
}

func (f *files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if now := f.stamps(); now != f.seen {
		f.seen = now
		f.load()
	}
	f.timer.Reset(lookEvery)
}

func (f *files) stamps() (s [2]stamp) {
	for i, path := range [...]string{f.certificate, f.key} {
		if info, err := os.Stat(path); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}
