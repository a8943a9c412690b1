package expose

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/zooid-project/zooid/internal/metrics"
)

// A native is a histogram that is a native one, too, of the same buckets. A Prometheus that wants native histograms
// asks for the format that has them; in text they aren't seen.
type native struct{ prometheus.Metric }

// Write implements prometheus.Metric.
func (n native) Write(to *dto.Metric) error {
	if err := n.Metric.Write(to); err != nil {
		return err
	}
	h := to.GetHistogram()
	upTo := make(map[int]uint64, len(h.GetBucket()))
	for _, b := range h.GetBucket() {
		upTo[math.Ilogb(b.GetUpperBound())] = b.GetCumulativeCount()
	}
	// In schema 0 bucket i ends at 2^i. What has no end here is a bucket more there; the first bucket is that of zero.
	ends := slices.Sorted(maps.Keys(upTo))
	upTo[ends[len(ends)-1]+1] = h.GetSampleCount()
	zero, schema, threshold, first := upTo[metrics.FirstEnd], int32(0), math.Ldexp(1, metrics.FirstEnd), int32(metrics.FirstEnd+1)
	h.Schema, h.ZeroThreshold, h.ZeroCount = &schema, &threshold, &zero
	length := uint32(len(ends))
	h.PositiveSpan = []*dto.BucketSpan{{Offset: &first, Length: &length}}
	last := int64(0)
	for i := range len(ends) {
		end := metrics.FirstEnd + 1 + i
		n := int64(upTo[end] - upTo[end-1])
		h.PositiveDelta = append(h.PositiveDelta, n-last)
		last = n
	}
	return nil
}
