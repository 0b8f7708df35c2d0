package threescale

import (
	"strconv"
	"sync/atomic"

	"weir/internal/meter"
)

// The calls to the backend, as metrics name them.
const (
	callAuthRep = iota
	callAuthorize
	callReport
	callKinds
)

// calls counts the calls to backends, by kind and class of status (apicast.md
// §8). A series is there from its first call on.
type calls struct {
	vec    *meter.Vec
	series [callKinds][10]atomic.Pointer[meter.Series]
}

func newCalls(m *meter.Registry) *calls {
	return &calls{vec: m.Vec(meter.Desc{
		Name: "threescale_backend_calls", Help: "Calls to the 3scale backend", Labels: []string{"endpoint", "status"},
	})}
}

func (c *calls) count(kind, status int) {
	class := min(status/100, 9)
	at := &c.series[kind][class]
	s := at.Load()
	if s == nil {
		label := "invalid_status"
		if class > 0 {
			label = strconv.Itoa(class) + "xx"
		}
		var ok bool
		if s, ok = c.vec.Use([...]string{"authrep", "auth", "report"}[kind], label); !ok {
			return
		}
		at.Store(s)
	}
	s.Add(1)
}

// A Counter counts what has no labels. It is exposed from its first count on, as
// those of APIcast are.
type Counter struct {
	vec    *meter.Vec
	series atomic.Pointer[meter.Series]
}

// NewCounter makes a counter, or takes the one of that name.
func NewCounter(m *meter.Registry, name, help string) *Counter {
	return &Counter{vec: m.Vec(meter.Desc{Name: name, Help: help})}
}

// Count adds one.
func (c *Counter) Count() {
	s := c.series.Load()
	if s == nil {
		var ok bool
		if s, ok = c.vec.With(nil); !ok {
			return
		}
		c.series.Store(s)
	}
	s.Add(1)
}
