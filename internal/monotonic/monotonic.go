// Package monotonic tells times as numbers that can be stored atomically and that no
// step of the system's clock moves, unlike those since 1970.
package monotonic

import "time"

// start is immutable. Its monotonic reading is what counts.
var start = time.Now()

// Now is the time in nanoseconds since the process started.
func Now() int64 { return int64(time.Since(start)) }

// Of is t on the same scale, for a t of time.Now or of a clock that never steps.
func Of(t time.Time) int64 { return int64(t.Sub(start)) }

// Time is the inverse of Of. It is for deadlines: what it says of the day is true
// only as long as the clock has not stepped since the start.
func Time(at int64) time.Time { return start.Add(time.Duration(at)) }
