package meter

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// clientRegistry is what loaded makes, with Prometheus' client.
func clientRegistry(names []string) func() ([]*dto.MetricFamily, error) {
	r := prometheus.NewRegistry()
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apisix_http_latency", Help: "Latency", Buckets: latencyBuckets}, names)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apisix_bandwidth", Help: "Bandwidth"}, names)
	r.MustRegister(h, c)
	for i := range 8_900 {
		for _, kind := range []string{"request", "upstream", "apisix"} {
			h.WithLabelValues(kind, fmt.Sprint("route-", i), "", "", "10.0.0.1", "traditional_http", "", "").Observe(float64(i))
		}
		c.WithLabelValues("egress", fmt.Sprint("route-", i), "", "", "10.0.0.1", "traditional_http", "", "").Add(float64(i))
	}
	return r.Gather
}
