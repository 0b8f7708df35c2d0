package schema

import (
	"math"
	"testing"
	"time"
)

// Whatever the number, a length of time keeps its sign and two of them can be added.
func TestDurations(t *testing.T) {
	const most = 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		n    float64
		want time.Duration
	}{
		{0, 0}, {1.5, 1500 * time.Millisecond}, {-2, -2 * time.Second}, {1e9, 1e9 * time.Second},
		{1e300, most}, {9e18, most}, {math.Inf(1), most}, {-1e300, -most}, {math.NaN(), 0},
	} {
		if got := Seconds(c.n); got != c.want {
			t.Errorf("%v seconds: %v, want %v", c.n, got, c.want)
		}
	}
	for _, n := range []int{math.MaxInt, math.MaxInt / 1000, 1 << 62} {
		if s, ms := Seconds(n), Milliseconds(n); s != most || ms != most || s+ms < s {
			t.Errorf("%d: %v and %v", n, s, ms)
		}
	}
	if got := Milliseconds(int64(math.MinInt64)); got != -most {
		t.Errorf("%v", got)
	}
	if got := Milliseconds(1500); got != 1500*time.Millisecond {
		t.Errorf("%v", got)
	}
}
