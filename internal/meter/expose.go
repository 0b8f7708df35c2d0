package meter

import (
	"io"
	"math"
	"runtime"
	"strconv"
	"time"
)

// ContentType is that of the exposition.
const ContentType = "text/plain; charset=utf-8"

// writeSize is how much is written at once.
const writeSize = 16 << 10

// Expose writes all metrics in Prometheus' text format, version 0.0.4. prefix
// stands before every name. Counting goes on meanwhile: the values of one series
// belong to one moment as far as it is possible without stopping anybody.
func (r *Registry) Expose(w io.Writer, prefix string) error {
	e := exposition{w: w, prefix: prefix, buf: make([]byte, 0, writeSize+4<<10)}
	for _, m := range *r.metrics.Load() {
		if m.read != nil {
			e.function(m)
			continue
		}
		e.vec(m.vec)
	}
	e.flush(0)
	return e.err
}

type exposition struct {
	w      io.Writer
	prefix string
	buf    []byte
	writes int
	err    error
}

// flush writes if there are at least so many bytes to write.
func (e *exposition) flush(least int) {
	if len(e.buf) <= least {
		return
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
	if e.writes++; e.writes%breathAfter == 0 {
		time.Sleep(breath)
	}
}

// A large exposition takes a breath after so many writes. Yielding alone is not
// enough: a processor that has something to run does not look for requests that
// have come. A breath is half a millisecond in fact; 500,000 lines take about 1.5 s
// with a breath for each 32 KiB. With one for 128 KiB they take 0.4 s, and twice as
// many requests as by chance take longer than 99.9 % of those before.
const (
	breathAfter = 2
	breath      = 20 * time.Microsecond
)

func (e *exposition) head(d *Desc) {
	e.buf = append(e.buf, "# HELP "...)
	e.name(d, "")
	e.buf = append(e.buf, ' ')
	for i := range len(d.Help) {
		switch c := d.Help[i]; c {
		case '\\':
			e.buf = append(e.buf, `\\`...)
		case '\n':
			e.buf = append(e.buf, `\n`...)
		default:
			e.buf = append(e.buf, c)
		}
	}
	e.buf = append(e.buf, "\n# TYPE "...)
	e.name(d, "")
	e.buf = append(append(append(e.buf, ' '), d.Kind.String()...), '\n')
}

func (e *exposition) name(d *Desc, suffix string) {
	e.buf = append(append(append(e.buf, e.prefix...), d.Name...), suffix...)
}

// labels prints a set of labels and what follows it.
func (e *exposition) labels(text string) {
	if text != "" {
		e.buf = append(append(append(e.buf, '{'), text...), '}')
	}
	e.buf = append(e.buf, ' ')
}

// function exposes what a function reads. Of two values with equal labels the
// first counts.
func (e *exposition) function(m metric) {
	e.head(&m.desc)
	seen := map[string]bool{}
	m.read(func(value float64, labels ...string) {
		text := string(appendLabels(nil, m.desc.Labels, labels))
		if seen[text] {
			return
		}
		seen[text] = true
		e.name(&m.desc, "")
		e.labels(text)
		e.buf = append(appendFloat(e.buf, value), '\n')
		e.flush(writeSize)
	})
}

// vec exposes a metric that has series.
func (e *exposition) vec(v *Vec) {
	headed := false
	n := 0
	for s := v.head.Load(); s != nil && e.err == nil; s = s.next.Load() {
		if s.hidden() {
			continue
		}
		if !headed {
			headed = true
			e.head(&v.desc)
		}
		if s.cells != nil {
			e.histogram(v, s)
		} else {
			e.name(&v.desc, "")
			e.labels(s.text)
			e.buf = append(strconv.AppendInt(e.buf, s.value.Load(), 10), '\n')
		}
		e.flush(writeSize)
		// Requests that are ready to run go first, at least this often.
		if n++; n%pauseEvery == 0 || s.cells != nil && n%(pauseEvery/16) == 0 {
			runtime.Gosched()
		}
	}
}

func (e *exposition) histogram(v *Vec, s *Series) {
	var count int64
	for i, le := range v.le {
		count += s.cells[i].Load()
		e.name(&v.desc, "_bucket{")
		if e.buf = append(e.buf, s.text...); s.text != "" {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(append(append(e.buf, `le="`...), le...), `"} `...)
		e.buf = append(strconv.AppendInt(e.buf, count, 10), '\n')
	}
	unit := v.desc.Unit
	if unit == 0 {
		unit = 1
	}
	e.name(&v.desc, "_sum")
	e.labels(s.text)
	e.buf = append(appendFloat(e.buf, float64(s.value.Load())/unit), '\n')
	e.name(&v.desc, "_count")
	e.labels(s.text)
	e.buf = append(strconv.AppendInt(e.buf, count, 10), '\n')
}

// appendFloat prints whole numbers without a point or exponent.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "+Inf"...)
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
