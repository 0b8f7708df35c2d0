package schema

import (
	"math"
	"time"
)

// longest is a hundred years: longer than anything lasts, and the sum of two of them is
// still a duration.
const longest = float64(100 * 365 * 24 * time.Hour)

// A quantity is a number as configurations have it.
type quantity interface {
	~int | ~int64 | ~float64
}

// Seconds is n of them, at most a hundred years, whatever the number.
func Seconds[N quantity](n N) time.Duration { return times(float64(n), time.Second) }

// Milliseconds is n of them, at most a hundred years, whatever the number.
func Milliseconds[N quantity](n N) time.Duration { return times(float64(n), time.Millisecond) }

func times(n float64, unit time.Duration) time.Duration {
	if math.IsNaN(n) {
		return 0
	}
	return time.Duration(min(max(n*float64(unit), -longest), longest))
}
