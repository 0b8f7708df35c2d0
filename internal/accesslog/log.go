// Package accesslog writes the access log and the error log. A request never
// waits for a disk: what cannot be written in time is dropped and counted.
package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plugin"
)

// Config says where and how the access log is written.
type Config struct {
	// Variables are names that a format may have beside the gateway's own; they are
	// what Ctx.SetVar has set.
	Variables []string
	// Path is a file, made with its folder if it is missing, or stdout or
	// stderr, or a syslog server, as nginx writes it: "syslog:server=ADDRESS".
	Path string
	// Format is in nginx's log_format syntax; empty: DefaultFormat.
	Format string
	// Escape is default or json (nginx's escape parameter); empty: default.
	Escape string
	// BufferSize is how many bytes are collected before they are written;
	// 0: 16384.
	BufferSize int
	// FlushEvery bounds how long a line is held back; 0: 3 s.
	FlushEvery time.Duration
	// Log is told when writing begins to fail and when it works again; nil:
	// nobody is.
	Log *slog.Logger
}

// backlog is how many buffers may wait for a slow disk.
const backlog = 64

// A Log is an open access log. A nil Log is one that is off.
type Log struct {
	format *format
	limit  int // bytes that are worth a write
	most   int // bytes above which lines are dropped
	every  time.Duration
	log    *slog.Logger

	mu      sync.Mutex
	filling []byte

	dropped atomic.Int64
	full    chan struct{}   // filling holds limit bytes
	reopen  chan chan error // requests of Reopen
	quit    chan struct{}
	done    chan struct{}
	close   sync.Once

	out     *output // the writer's own from here on
	writing []byte
	torn    bool // the last write ended within a line
	failing bool
}

// Open starts an access log. An unknown variable or escape and a file that
// cannot be opened are errors.
func Open(c Config) (*Log, error) {
	if c.Format == "" {
		c.Format = DefaultFormat
	}
	if c.Escape != "" && c.Escape != "default" && c.Escape != "json" {
		return nil, fmt.Errorf("access log: escape %q is neither default nor json", c.Escape)
	}
	f, err := compile(c.Format, c.Escape == "json", c.Variables...)
	if err != nil {
		return nil, fmt.Errorf("access log: format: %w", err)
	}
	out, err := openOutput(c.Path)
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	if c.BufferSize <= 0 {
		c.BufferSize = 16 << 10
	}
	if c.FlushEvery <= 0 {
		c.FlushEvery = 3 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		format: f, limit: c.BufferSize, most: backlog * c.BufferSize, every: c.FlushEvery, log: c.Log, out: out,
		full: make(chan struct{}, 1), reopen: make(chan chan error),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go l.write()
	return l, nil
}

// lines are the buffers in which callers format.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// Write logs a request whose Sent is complete. It does not keep c.
func (l *Log) Write(c *plugin.Ctx) {
	if l == nil {
		return
	}
	line := lines.Get().(*[]byte)
	*line = (*line)[:0]
	if !c.Line.Off {
		*line = l.format.appendTo(*line, c)
	}
	if c.Line.Own {
		*line = appendOwn(*line, c.Line.Text)
	}
	if len(*line) > 0 {
		l.put(*line)
	}
	lines.Put(line)
}

// appendOwn appends a line that a plugin has made, in which the ends of lines are
// escaped: a client's words must not become a line.
func appendOwn(dst []byte, text string) []byte {
	for {
		i := strings.IndexAny(text, "\r\n")
		if i < 0 {
			return append(append(dst, text...), '\n')
		}
		dst = append(dst, text[:i]...)
		if text[i] == '\n' {
			dst = append(dst, `\x0A`...)
		} else {
			dst = append(dst, `\x0D`...)
		}
		text = text[i+1:]
	}
}

func (l *Log) put(line []byte) {
	l.mu.Lock()
	size := len(l.filling) + len(line)
	if size > l.most && len(l.filling) > 0 {
		l.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	l.filling = append(l.filling, line...)
	l.mu.Unlock()
	if size >= l.limit {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// Dropped is the number of lines that were lost since Open.
func (l *Log) Dropped() int64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// Reopen writes what is held back to the file that was open and opens the path
// anew, for log rotation. When that fails, the old file stays in use.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	answer := make(chan error, 1)
	select {
	case l.reopen <- answer:
		return <-answer
	case <-l.done:
		return os.ErrClosed
	}
}

// Close writes what is held back and closes the file. Lines written later are
// lost.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	var err error
	l.close.Do(func() {
		close(l.quit)
		<-l.done
		err = l.out.Close()
	})
	return err
}

func (l *Log) write() {
	defer close(l.done)
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-l.full:
			l.flush()
		case <-tick.C:
			l.flush()
		case answer := <-l.reopen:
			l.flush()
			answer <- l.out.reopen()
		case <-l.quit:
			l.flush()
			return
		}
	}
}

// flush writes everything that is waiting.
func (l *Log) flush() {
	l.mu.Lock()
	l.filling, l.writing = l.writing[:0], l.filling
	l.mu.Unlock()
	if len(l.writing) == 0 {
		return
	}
	if l.torn {
		l.writing = append([]byte("\n"), l.writing...)
	}
	n, err := l.out.Write(l.writing)
	if n > 0 {
		l.torn = l.writing[n-1] != '\n'
	}
	if err != nil {
		l.dropped.Add(int64(bytes.Count(l.writing[n:], []byte("\n"))))
	}
	if failed := err != nil; failed != l.failing {
		l.failing = failed
		l.report(err)
	}
	if cap(l.writing) > 4*l.limit {
		l.writing = nil // grown by a slow disk
	}
}

func (l *Log) report(err error) {
	if err != nil {
		l.log.Error("access log cannot be written, lines are dropped", "path", l.out.path, "err", err)
		return
	}
	l.log.Warn("access log is written again", "path", l.out.path, "dropped", l.dropped.Load())
}

// An output is a log file that can be opened anew.
type output struct {
	path string
	io.Writer
}

func openOutput(path string) (*output, error) {
	o := &output{path: path}
	return o, o.reopen()
}

// reopen opens the path and closes what was open before; it changes nothing if
// that fails.
func (o *output) reopen() error {
	switch o.path {
	case "":
		return errors.New("no path given")
	case "stdout", "/dev/stdout":
		o.Writer = os.Stdout
		return nil
	case "stderr", "/dev/stderr":
		o.Writer = os.Stderr
		return nil
	}
	var next io.Writer
	var err error
	if parameters, remote := strings.CutPrefix(o.path, "syslog:"); remote {
		next, err = dialSyslog(parameters)
	} else {
		next, err = openFile(o.path)
	}
	if err != nil {
		return err
	}
	old := *o
	o.Writer = next
	return old.Close()
}

func openFile(path string) (*os.File, error) {
	const (
		flags = os.O_APPEND | os.O_CREATE | os.O_WRONLY
		mode  = 0o640 // requests may hold keys
	)
	f, err := os.OpenFile(path, flags, mode)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, mode)
}

// Close closes the file or the connection; the standard streams are not ours to
// close.
func (o *output) Close() error {
	if c, ok := o.Writer.(io.Closer); ok && o.Writer != os.Stdout && o.Writer != os.Stderr {
		return c.Close()
	}
	return nil
}
