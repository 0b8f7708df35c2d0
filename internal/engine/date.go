package engine

import (
	"sync/atomic"
	"time"
)

// httpTime is IMF-fixdate (RFC 9110 §5.6.7).
const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

// A dateCell holds the Date header's value, made once a second by the sweeper.
type dateCell struct{ text atomic.Pointer[string] }

func (d *dateCell) set(now time.Time) {
	s := now.UTC().Format(httpTime)
	d.text.Store(&s)
}

func (d *dateCell) get() string { return *d.text.Load() }
