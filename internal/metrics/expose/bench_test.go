package expose_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zooid-project/zooid/internal/metrics"
)

// BenchmarkObserve is why histograms are counted by internal/metrics (docs/decisions/050).
func BenchmarkObserve(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		h := (&metrics.Registry{}).Histograms("h", "help", "stage", "a")[0]
		for n := range int64(b.N) {
			h.Observe(n & (1<<24 - 1))
		}
	})
	b.Run("client_golang, native", func(b *testing.B) {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", NativeHistogramBucketFactor: 2})
		for n := range int64(b.N) {
			h.Observe(float64(n&(1<<24-1)) / 1e9)
		}
	})
	b.Run("client_golang, buckets", func(b *testing.B) {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: prometheus.ExponentialBuckets(1e-6, 2, 25)})
		for n := range int64(b.N) {
			h.Observe(float64(n&(1<<24-1)) / 1e9)
		}
	})
}
