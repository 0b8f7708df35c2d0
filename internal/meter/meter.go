// Package meter counts. A metric's series, one per combination of label values,
// are resolved beforehand, so that counting is an atomic addition: neither a
// request nor a scrape ever waits for the other, however many series there are.
package meter

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Kind is the type of a metric.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// String is the name in the exposition.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// A Desc describes a metric. Names and labels are code or checked configuration:
// they must be valid in the exposition format.
type Desc struct {
	Name   string // without the prefix of the exposition
	Help   string
	Kind   Kind
	Labels []string

	// Buckets are the upper bounds of a histogram in ascending order, without
	// the infinite one. Unit is how many units of Observe make one of the bounds'
	// and of the exposed sum; 0: 1.
	Buckets []float64
	Unit    float64

	// Expire is after how long without a change a series is dropped; 0: never.
	Expire time.Duration
}

// DefaultLimit is how many series a registry holds at most, a histogram being
// one.
const DefaultLimit = 250_000

// A Registry is the metrics of a process. Make it with New.
type Registry struct {
	limit   atomic.Int64
	count   atomic.Int64
	refused atomic.Int64

	mu      sync.Mutex // guards changes of metrics
	metrics atomic.Pointer[[]metric]
}

// A metric is a Vec, or a function that knows the values.
type metric struct {
	vec  *Vec
	desc Desc
	read func(emit func(value float64, labels ...string))
}

// New makes a registry for at most limit series; 0: DefaultLimit.
func New(limit int) *Registry {
	r := new(Registry)
	r.metrics.Store(new([]metric))
	r.SetLimit(limit)
	return r
}

// SetLimit changes how many series there may be; 0: DefaultLimit. Those that
// exist stay.
func (r *Registry) SetLimit(limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	r.limit.Store(int64(limit))
}

// Series is the number of series.
func (r *Registry) Series() int { return int(r.count.Load()) }

// Refused is how often a new series was not made because of the limit.
func (r *Registry) Refused() int64 { return r.refused.Load() }

// Vec returns the metric of that name, which is made as described if it is new.
func (r *Registry) Vec(d Desc) *Vec {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := *r.metrics.Load()
	for _, m := range all {
		if m.desc.Name == d.Name {
			if m.vec == nil {
				panic("meter: " + d.Name + " is read by a function")
			}
			return m.vec
		}
	}
	v := newVec(r, d)
	r.store(append(slices.Clone(all), metric{vec: v, desc: d}))
	return v
}

// Func makes a counter or gauge whose values are read when they are exposed: read
// calls emit with the values of the labels, in their order. It replaces a metric
// of the same name.
func (r *Registry) Func(d Desc, read func(emit func(value float64, labels ...string))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(*r.metrics.Load())
	all = slices.DeleteFunc(all, func(m metric) bool { return m.desc.Name == d.Name && m.read != nil })
	r.store(append(all, metric{desc: d, read: read}))
}

func (r *Registry) store(all []metric) { r.metrics.Store(&all) }

// reserve makes room for one series, if there is any.
func (r *Registry) reserve() bool {
	if r.count.Add(1) <= r.limit.Load() {
		return true
	}
	r.count.Add(-1)
	r.refused.Add(1)
	return false
}
