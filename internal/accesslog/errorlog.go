package accesslog

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Levels between slog's own, after nginx's error_log directive.
const (
	LevelNotice = slog.LevelInfo + 2
	LevelCrit   = slog.LevelError + 4
	LevelAlert  = slog.LevelError + 8
	LevelEmerg  = slog.LevelError + 12
)

// levels is immutable, lowest first.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"notice", LevelNotice}, {"warn", slog.LevelWarn},
	{"error", slog.LevelError}, {"crit", LevelCrit}, {"alert", LevelAlert}, {"emerg", LevelEmerg},
}

// ParseLevel returns the level that nginx's error_log directive calls name.
func ParseLevel(name string) (slog.Level, error) {
	for _, l := range levels {
		if l.name == name {
			return l.level, nil
		}
	}
	return 0, fmt.Errorf("error log: unknown level %q", name)
}

func levelName(level slog.Level) string {
	name := levels[0].name
	for _, l := range levels {
		if level >= l.level {
			name = l.name
		}
	}
	return name
}

// An ErrorLog is the operator's log: one line per event,
//
//	2026/01/02 15:04:05.000 [warn] message key=value
//
// with values quoted where they contain a space, a quote or a control
// character.
type ErrorLog struct {
	level slog.Level

	mu  sync.Mutex
	out *output
}

// OpenErrorLog opens the log at path (a file, stdout or stderr) for events of
// at least the level.
func OpenErrorLog(path string, level slog.Level) (*ErrorLog, error) {
	out, err := openOutput(path)
	if err != nil {
		return nil, fmt.Errorf("error log: %w", err)
	}
	return &ErrorLog{level: level, out: out}, nil
}

// Logger returns a logger that writes here.
func (e *ErrorLog) Logger() *slog.Logger { return slog.New(&handler{log: e}) }

// Reopen opens the path anew, for log rotation. When that fails, the old file
// stays in use.
func (e *ErrorLog) Reopen() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.reopen()
}

// Close closes the file. Events logged later are lost.
func (e *ErrorLog) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Close()
}

// A handler is a slog.Handler with the attributes given so far.
type handler struct {
	log   *ErrorLog
	attrs string // formatted, each with a space before it
	group string // prefix of names, ended by a dot
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.log.level }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	t := r.Time
	if t.IsZero() {
		t = time.Now()
	}
	b := t.AppendFormat(make([]byte, 0, 256), "2006/01/02 15:04:05.000 [")
	b = append(append(b, levelName(r.Level)...), "] "...)
	b = appendOneLine(b, r.Message)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.group, a)
		return true
	})
	b = append(b, '\n')
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	_, err := h.log.out.Write(b)
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.group, a)
	}
	return &handler{log: h.log, attrs: string(b), group: h.group}
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{log: h.log, attrs: h.attrs, group: h.group + name + "."}
}

func appendAttr(b []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range v.Group() {
			b = appendAttr(b, group, inner)
		}
		return b
	}
	if a.Key == "" {
		return b
	}
	b = append(append(append(append(b, ' '), group...), a.Key...), '=')
	text := v.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		return strconv.AppendQuote(b, text)
	}
	return append(b, text...)
}

// appendOneLine keeps an event on its line, whoever chose its text.
func appendOneLine(b []byte, text string) []byte {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return append(b, text...)
	}
	q := strconv.Quote(text)
	return append(b, q[1:len(q)-1]...)
}
