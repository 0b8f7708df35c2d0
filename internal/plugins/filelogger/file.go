package filelogger

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/logentry"
	"weir/internal/monotonic"
	"weir/internal/plugin"
)

// most is how many bytes may wait for a slow disk; lines beyond it are dropped
// and counted.
const most = 4 << 20

// A file is a log file that configurations with the same path share. Requests
// leave their lines with it; a goroutine that runs while there are any writes
// them, everything that is waiting at once.
type file struct {
	path  string
	log   *slog.Logger
	leave func() // ends being opened anew

	mu      sync.Mutex
	waiting []byte
	running bool
	writers sync.WaitGroup

	dropped atomic.Int64
	said    monotonic.Seldom // that writing fails

	using sync.Mutex // guards out
	out   *os.File   // nil until there is something to write
}

func open(path string, env plugin.Env) *file {
	f := &file{path: path, log: env.Log}
	f.leave = env.Files.Add(f.reopen)
	return f
}

// lines are the buffers in which requests make their entries.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func (f *file) write(c *plugin.Ctx, entry *logentry.Entry) {
	line := lines.Get().(*[]byte)
	*line = append(entry.Append((*line)[:0], c), '\n')
	f.add(*line)
	if cap(*line) <= most/64 {
		lines.Put(line)
	}
}

func (f *file) add(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) > 0 && len(f.waiting)+len(line) > most {
		f.dropped.Add(1)
		return
	}
	f.waiting = append(f.waiting, line...)
	if !f.running {
		f.running = true
		f.writers.Go(f.run)
	}
}

// run writes until nothing is waiting.
func (f *file) run() {
	var writing []byte
	for {
		f.mu.Lock()
		if len(f.waiting) == 0 {
			f.running = false
			f.mu.Unlock()
			return
		}
		f.waiting, writing = writing[:0], f.waiting
		f.mu.Unlock()
		if err := f.flush(writing); err != nil {
			f.dropped.Add(int64(bytes.Count(writing, []byte("\n"))))
			f.report(err)
		}
	}
}

func (f *file) flush(p []byte) (err error) {
	f.using.Lock()
	defer f.using.Unlock()
	if f.out == nil {
		if f.out, err = openFile(f.path); err != nil {
			return err
		}
	}
	_, err = f.out.Write(p)
	return err
}

func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640) // requests may hold keys
	if err != nil {
		return nil, err
	}
	return f, nil
}

// report says once a second that writing fails.
func (f *file) report(err error) {
	if f.said.Ready(time.Now()) {
		f.log.Error("a log file cannot be written, entries are dropped", "plugin", name, "path", f.path,
			"dropped_so_far", f.dropped.Load(), "err", err)
	}
}

// reopen opens the path anew; if that fails, the old file stays in use.
func (f *file) reopen() error {
	f.using.Lock()
	defer f.using.Unlock()
	if f.out == nil {
		return nil
	}
	out, err := openFile(f.path)
	if err != nil {
		return err
	}
	old := f.out
	f.out = out
	return old.Close()
}

// Close writes what is waiting and closes the file.
func (f *file) Close() {
	f.leave()
	f.writers.Wait()
	f.using.Lock()
	defer f.using.Unlock()
	if f.out == nil {
		return
	}
	if err := f.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		f.report(err)
	}
}
