package embed

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A fatal takes the place of the server's exits. etcd ends its process when it
// cannot go on, for instance when its disk is full; here that process carries
// traffic, so only the goroutine ends.
type fatal struct {
	log *slog.Logger
	// quiet is set during start and stop, whose errors the caller is told; etcd
	// takes closed listeners and the like for errors.
	quiet atomic.Bool

	done chan struct{}
	once sync.Once
	err  error // set before done is closed
}

func newFatal(log *slog.Logger) *fatal {
	return &fatal{log: log, done: make(chan struct{})}
}

func (f *fatal) cause() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// OnWrite is called by zap instead of an exit or a panic.
func (f *fatal) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.once.Do(func() {
		f.err = fmt.Errorf("the server failed: %s", entry.Message)
		for _, field := range fields {
			if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
				f.err = fmt.Errorf("%w: %w", f.err, err)
			}
		}
		close(f.done)
	})
	runtime.Goexit()
}

func (f *fatal) logger() *zap.Logger {
	return zap.New(slogCore{log: f.log, quiet: &f.quiet}, zap.WithFatalHook(f), zap.WithPanicHook(f))
}

// slogCore writes the server's warnings and errors to the gateway's log.
type slogCore struct {
	log    *slog.Logger
	quiet  *atomic.Bool
	fields []zapcore.Field
}

func (c slogCore) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(c.fields[:len(c.fields):len(c.fields)], fields...)
	return c
}

func (c slogCore) Check(entry zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return ce.AddCore(entry, c)
	}
	return ce
}

// noise are the beginnings of messages of every first start that tell the
// operator nothing.
var noise = [...]string{"Failed to detect schema version", "failed to update storage version"}

func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Level <= zapcore.ErrorLevel && c.quiet.Load() {
		return nil
	}
	for _, prefix := range noise {
		if strings.HasPrefix(entry.Message, prefix) {
			return nil
		}
	}
	level := slog.LevelWarn
	if entry.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, field := range list {
			field.AddTo(enc)
		}
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for key, value := range enc.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	c.log.LogAttrs(context.Background(), level, "embedded store: "+entry.Message, attrs...)
	return nil
}

func (c slogCore) Sync() error { return nil }
