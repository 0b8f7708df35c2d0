package engine

import (
	"strings"
	"testing"
	"time"
)

// Deadlines that are counted from the coarse clock must have its monotonic reading:
// one that is a time of day alone strikes at once, or not for long, when the clock of
// the system is set after the last tick.
func TestCoarseClockIsMonotonic(t *testing.T) {
	var c clock
	now := time.Now()
	c.set(now)
	from := c.For(time.Minute)
	if from.Sub(now) != 0 {
		t.Errorf("from %v, want %v", from, now)
	}
	if !strings.Contains(from.String(), " m=") {
		t.Errorf("%v has no monotonic reading", from)
	}
}

func TestClockDate(t *testing.T) {
	var c clock
	for _, at := range []struct {
		now  time.Time
		want string
	}{
		{time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC), "Mon, 30 Nov 2026 23:59:59 GMT"},
		{time.Date(2026, 11, 30, 23, 59, 59, 999, time.UTC), "Mon, 30 Nov 2026 23:59:59 GMT"},
		{time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), "Tue, 01 Dec 2026 00:00:00 GMT"},
		{time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC), "Mon, 30 Nov 2026 22:00:00 GMT"}, // set back
	} {
		if c.set(at.now); c.Date() != at.want {
			t.Errorf("%s, want %s", c.Date(), at.want)
		}
	}
}
