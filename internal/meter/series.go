package meter

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
)

// An Owner is what a series is about.
type Owner interface {
	// Gone says that it does not exist any more. It is asked now and then, not by
	// requests.
	Gone() bool
}

// A Series is one combination of label values of a metric. Of many series none is in
// a cache when it counts, so that what counting needs lies apart from the rest.
type Series struct {
	vec   *Vec
	value atomic.Int64   // of a counter or gauge; the sum of a histogram
	cells []atomic.Int64 // of a histogram: observations per bucket
	*upkeep
}

// An upkeep is what the Vec of a Series, scrapes and Sweep know of it.
type upkeep struct {
	text string // its labels as exposed
	next atomic.Pointer[Series]

	doomed atomic.Bool  // to be dropped by the next Sweep
	last   atomic.Int64 // observations, or value, when Sweep last saw it change

	// Guarded by the Vec's mu.
	prev  *Series
	owner Owner
	users int
	since int64 // when last was set, monotonic
	gone  int64 // since when its owner is; 0: it is not
}

// Add adds to a counter or gauge.
func (s *Series) Add(n int64) { s.value.Add(n) }

// Set sets a gauge.
func (s *Series) Set(n int64) { s.value.Store(n) }

// Value is a counter's or gauge's value, or the sum of what a histogram observed.
func (s *Series) Value() int64 { return s.value.Load() }

// Observe adds an observation, in Desc.Unit, to a histogram.
func (s *Series) Observe(n int64) {
	i := 0
	for _, bound := range s.vec.bounds {
		if n <= bound {
			break
		}
		i++
	}
	s.cells[i].Add(1)
	s.value.Add(n)
}

// Doomed says that the series will be dropped unless it is asked for again by
// Vec.With. Whoever keeps series looks after each Sweep.
func (s *Series) Doomed() bool { return s.doomed.Load() }

// hidden says that the series is as good as dropped.
func (s *Series) hidden() bool { return s.doomed.Load() && s.changes() == s.last.Load() }

func (s *Series) changes() int64 {
	if s.cells == nil {
		return s.value.Load()
	}
	var n int64
	for i := range s.cells {
		n += s.cells[i].Load()
	}
	return n
}

// A Vec is a metric and its series.
type Vec struct {
	desc     Desc
	registry *Registry
	bounds   []int64 // upper bounds of a histogram, in the unit of Observe
	le       []string

	// The series are a list, new ones first. Scrapes walk it without the lock: a
	// series that was taken out still leads to those behind it.
	head   atomic.Pointer[Series]
	mu     sync.Mutex
	byText map[string]*Series
}

func newVec(r *Registry, d Desc) *Vec {
	v := &Vec{desc: d, registry: r, byText: map[string]*Series{}}
	if d.Kind != Histogram {
		return v
	}
	unit := d.Unit
	if unit == 0 {
		unit = 1
	}
	for _, b := range d.Buckets {
		v.bounds = append(v.bounds, int64(b*unit))
		v.le = append(v.le, string(appendFloat(nil, b)))
	}
	v.le = append(v.le, "+Inf")
	return v
}

// With returns the series with the given label values, which are copied. A new
// one is made, unless the registry is full: then ok is false and nothing can be
// counted. The series lives until Sweep finds its owner gone, or itself
// unchanged for too long; a nil owner is never gone.
func (v *Vec) With(owner Owner, values ...string) (s *Series, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok = v.find(values); ok {
		s.owner, s.gone, s.since = owner, 0, monotonic.Now()
		s.doomed.Store(false)
	}
	return s, ok
}

// Use is With for a series that has users instead of an owner; it lives until as
// many calls of Drop.
func (v *Vec) Use(values ...string) (s *Series, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok = v.find(values); ok {
		s.users++
	}
	return s, ok
}

// Drop ends one Use.
func (v *Vec) Drop(s *Series) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.users--; s.users == 0 {
		v.unlink(s)
	}
}

func (v *Vec) find(values []string) (*Series, bool) {
	text := appendLabels(nil, v.desc.Labels, values)
	if s := v.byText[string(text)]; s != nil {
		return s, true
	}
	if !v.registry.reserve() {
		return nil, false
	}
	s := newSeries(len(v.le))
	s.vec, s.text = v, string(text)
	v.byText[s.text] = s
	if old := v.head.Load(); old != nil {
		old.prev = s
		s.next.Store(old)
	}
	v.head.Store(s)
	return s, true
}

// usualCells is how many most histograms have: fifteen bounds and the infinite one.
const usualCells = 16

// newSeries makes a Series with so many cells, next to it if they are few.
func newSeries(cells int) *Series {
	switch {
	case cells == 0:
		return &Series{upkeep: new(upkeep)}
	case cells > usualCells:
		return &Series{upkeep: new(upkeep), cells: make([]atomic.Int64, cells)}
	}
	both := new(struct {
		Series
		cells [usualCells]atomic.Int64
		_     [16]byte // so that it begins with a cache line
	})
	both.upkeep, both.Series.cells = new(upkeep), both.cells[:cells]
	return &both.Series
}

func (v *Vec) unlink(s *Series) {
	delete(v.byText, s.text)
	v.registry.count.Add(-1)
	next := s.next.Load()
	if next != nil {
		next.prev = s.prev
	}
	if s.prev == nil {
		v.head.Store(next)
		return
	}
	s.prev.next.Store(next)
}

// The patience of Sweep.
const (
	// goneFor is how long a series outlives its owner, so that what was counted
	// last is still scraped.
	goneFor = time.Minute
	// idleFor is how long a series must not have changed to make room for others
	// when the registry is almost full.
	idleFor = 10 * time.Minute
	// pauseEvery is after how many series a long walk lets others run.
	pauseEvery = 256
)

// Sweep drops the series that the last Sweep has doomed, and dooms those whose
// owner is gone, that have expired, or that make room for others in a registry
// that is nine tenths full. Calls must not overlap.
func (r *Registry) Sweep(now time.Time) {
	full := r.count.Load() >= r.limit.Load()/10*9
	for _, m := range *r.metrics.Load() {
		if m.vec == nil {
			continue
		}
		expire := m.desc.Expire
		if full && (expire == 0 || expire > idleFor) {
			expire = idleFor
		}
		m.vec.sweep(monotonic.Of(now), expire)
	}
}

func (v *Vec) sweep(now int64, expire time.Duration) {
	n := 0
	for s := v.head.Load(); s != nil; s = s.next.Load() {
		v.mu.Lock()
		v.judge(s, now, expire)
		v.mu.Unlock()
		if n++; n%pauseEvery == 0 {
			runtime.Gosched()
		}
	}
}

func (v *Vec) judge(s *Series, now int64, expire time.Duration) {
	if s.users > 0 || v.byText[s.text] != s {
		return
	}
	if n := s.changes(); n != s.last.Load() {
		s.last.Store(n)
		s.since = now
	}
	due := expire > 0 && now-s.since >= int64(expire)
	switch {
	case s.owner == nil || !s.owner.Gone():
		s.gone = 0
	case s.gone == 0:
		s.gone = now
	default:
		due = due || now-s.gone >= int64(goneFor)
	}
	switch {
	case !due:
		s.doomed.Store(false)
	case s.doomed.Load():
		v.unlink(s)
	default:
		s.doomed.Store(true)
	}
}

// appendLabels prints labels as they are exposed, without braces.
func appendLabels(dst []byte, names, values []string) []byte {
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), `="`...)
		dst = append(appendEscaped(dst, strings.ToValidUTF8(values[i], "\uFFFD")), '"')
	}
	return dst
}

// appendEscaped escapes what the exposition format demands of a label's value.
func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
