package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"weir/internal/bench/load"
)

// progress tells what is happening: on a terminal in one line that is written
// over every second, elsewhere in a line every ten seconds.
type progress struct {
	w        io.Writer
	terminal bool
	open     bool // the current line is to be written over
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// say writes a line of its own.
func (p *progress) say(format string, args ...any) {
	if p.open {
		fmt.Fprintln(p.w)
		p.open = false
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *progress) tick(ph phase, elapsed time.Duration, gen *load.Generator, churn *churner, i int, rss int64) {
	s := gen.Snapshot(i)
	creates, deletes := churn.of(i)
	p.update(elapsed, elapsed == ph.length, "%-9s %4.0f/%.0f s  sent %d  2xx %d  timeouts %d  p99 %s  max %s  created %d  deleted %d  rss %d MiB",
		ph.name, elapsed.Seconds(), ph.length.Seconds(), s.Sent, s.Status[2], s.Timeouts,
		brief(s.Latency.Quantile(.99)), brief(s.Latency.Max()), creates.Acked, deletes.Acked, rss>>20)
}

// update shows how a phase stands, which is called for every second of it and at
// its end.
func (p *progress) update(elapsed time.Duration, last bool, format string, args ...any) {
	if !p.terminal && elapsed%(10*time.Second) != 0 && !last {
		return
	}
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.open = true
	if last {
		fmt.Fprintln(p.w)
		p.open = false
	}
}

// brief is a duration with three digits that matter.
func brief(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
