//go:build !race

package engine

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/meter"
)

// BenchmarkScrape is the latency of requests beside which 500,000 lines of metrics
// are exposed again and again, and of requests that have the processors for
// themselves.
func BenchmarkScrape(b *testing.B) {
	r := meter.New(0)
	buckets := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000}
	v := r.Vec(meter.Desc{Name: "latency", Help: "Latency", Kind: meter.Histogram, Labels: []string{"route", "node"}, Buckets: buckets})
	for i := range 28_000 {
		s, ok := v.With(nil, strconv.Itoa(i), "127.0.0.1")
		if !ok {
			b.Fatal("full")
		}
		s.Observe(int64(i))
	}
	for _, scraped := range []bool{false, true} {
		b.Run(fmt.Sprintf("scraped=%v", scraped), func(b *testing.B) {
			once := proxyOnce(b)
			var scraper sync.WaitGroup
			stop := make(chan struct{})
			scrapes := 0
			if scraped {
				scraper.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Millisecond):
							if r.Expose(io.Discard, "x_") == nil {
								scrapes++
							}
						}
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				once()
				took = append(took, time.Since(start))
			}
			close(stop)
			scraper.Wait()
			slices.Sort(took)
			at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) }
			b.ReportMetric(at(0.5), "p50-µs")
			b.ReportMetric(at(0.99), "p99-µs")
			b.ReportMetric(at(0.999), "p999-µs")
			b.ReportMetric(float64(scrapes), "scrapes")
		})
	}
}
