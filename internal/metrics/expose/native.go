package expose

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/zooid-project/zooid/internal/metrics"
)

// A native is a histogram that is also exposed as a native histogram with the same buckets. A Prometheus server that
// wants native histograms requests the protobuf format; the text format doesn't show them.
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
	// In schema 0, bucket i ends at 2^i. The bucket without an end gets one there; the first is the zero bucket.
	ends := slices.Sorted(maps.Keys(upTo))
	upTo[ends[len(ends)-1]+1] = h.GetSampleCount()
	zero, schema, threshold, first := upTo[metrics.FirstEnd], int32(0), math.Ldexp(1, metrics.FirstEnd),
		int32(metrics.FirstEnd+1)
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
