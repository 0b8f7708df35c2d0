package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() time.Duration{
		"uniform":     func() time.Duration { return time.Duration(rng.Int64N(int64(time.Second))) },
		"exponential": func() time.Duration { return time.Duration(rng.ExpFloat64() * float64(2*time.Millisecond)) },
		"wide":        func() time.Duration { return time.Duration(math.Exp(rng.Float64() * 43)) },
		"tiny":        func() time.Duration { return time.Duration(rng.Int64N(300)) },
		"constant":    func() time.Duration { return 123456789 },
	}
	for name, draw := range shapes {
		t.Run(name, func(t *testing.T) {
			var h Histogram
			exact := make([]time.Duration, 20001)
			for i := range exact {
				exact[i] = draw()
				h.Record(exact[i])
			}
			slices.Sort(exact)
			for _, q := range []float64{0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
				want := exact[max(int(math.Ceil(q*float64(len(exact)))), 1)-1]
				got := h.Quantile(q)
				if diff := math.Abs(float64(got - want)); diff > 0.01*float64(want) {
					t.Errorf("quantile %v: got %v, exact %v", q, got, want)
				}
			}
			if h.Max() != exact[len(exact)-1] || h.Count() != uint64(len(exact)) {
				t.Errorf("max %v count %d", h.Max(), h.Count())
			}
		})
	}
}

func TestHistogramEveryBucketHoldsItsMiddle(t *testing.T) {
	for i := range buckets {
		if got := bucketOf(middle(i)); got != i {
			t.Fatalf("middle of bucket %d is in bucket %d", i, got)
		}
	}
	if got := bucketOf(math.MaxInt64); got != buckets-1 {
		t.Fatalf("longest duration is in bucket %d of %d", got, buckets)
	}
}

func TestHistogramAddAndEdges(t *testing.T) {
	var a, b, empty Histogram
	if a.Quantile(0.5) != 0 || a.Mean() != 0 || a.Max() != 0 {
		t.Error("an empty histogram is all zero")
	}
	a.Record(-5)
	a.Record(10)
	b.Record(4)
	b.Record(30)
	a.Add(&b)
	a.Add(&empty)
	if a.Count() != 4 || a.Max() != 30 || a.Quantile(0) != 0 || a.Quantile(0.5) != 4 || a.Mean() != 11 {
		t.Errorf("count %d max %v p0 %v p50 %v mean %v", a.Count(), a.Max(), a.Quantile(0), a.Quantile(0.5), a.Mean())
	}
}

func TestOver(t *testing.T) {
	var h Histogram
	for i := range 1000 {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	for d, want := range map[time.Duration]uint64{0: 999, time.Second: 0, -1: 999} {
		if got := h.Over(d); got != want {
			t.Errorf("over %v: %d, want %d", d, got, want)
		}
	}
	if n := h.Over(h.Quantile(.9)); n < 90 || n > 100 {
		t.Errorf("%d of 1000 are over the p90", n)
	}
}
