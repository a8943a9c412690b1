package metrics

import "math"

// Kind is the Prometheus type of a metric.
type Kind int

// The kinds.
const (
	KindGauge Kind = iota
	KindCounter
	KindSummary
	KindHistogram
)

// A Sample is one metric as Prometheus sees it.
type Sample struct {
	Name, Help   string
	Kind         Kind
	Apache       bool   // the name is Apache's, as mntr has it
	Label, Value string // one label; Label is "" for none

	Number float64 // of a gauge or counter
	Count  uint64  // of a summary or histogram
	Sum    float64
	// Quantiles of a summary, by their share; NaN without observations.
	Quantiles map[float64]float64
	// Buckets of a histogram: for the end of each, how many observations weren't greater.
	Buckets map[float64]uint64
}

// Samples visits every metric with each value of its label, in order of registration. Names are Apache's: no prefix,
// the keys of a set are the label "key", and a summary has the quantile 0.5 and, if Advanced, 0.9, 0.95 and 0.99 of
// all values since the last Reset. For a set without keys no sample is visited.
func (r *Registry) Samples(visit func(*Sample)) {
	r.beginPass()
	for _, m := range r.metrics {
		m.samples(m.name, visit)
	}
}

// keyLabel is the label of Apache's sets.
const keyLabel = "key"

func (g gauge) samples(name string, visit func(*Sample)) {
	visit(&Sample{Name: name, Help: helpOf(name), Apache: true, Number: g().Float64()})
}

func (g gaugeSet) samples(name string, visit func(*Sample)) {
	g.inOrder(func(key string, v Value) {
		visit(&Sample{Name: name, Help: helpOf(name), Apache: true, Label: keyLabel, Value: key, Number: v.Float64()})
	})
}

func (c *Counter) samples(name string, visit func(*Sample)) { visit(c.sample(name)) }

func (c *Counter) sample(name string) *Sample {
	return &Sample{Name: name, Help: helpOf(name), Kind: KindCounter, Apache: true, Number: float64(c.Value())}
}

func (s *CounterSet) samples(name string, visit func(*Sample)) {
	s.inOrder(func(key string, c *Counter) {
		sample := c.sample(name)
		sample.Label, sample.Value = keyLabel, key
		visit(sample)
	})
}

func (s *Summary) samples(name string, visit func(*Sample)) { visit(s.sample(name)) }

func (s *Summary) sample(name string) *Sample {
	r := s.read()
	quantile := func(share float64) float64 {
		if r.observed == 0 {
			return math.NaN()
		}
		return float64(r.percentile(share))
	}
	sample := &Sample{
		Name: name, Help: helpOf(name), Kind: KindSummary, Apache: true, Count: uint64(max(r.cnt, 0)),
		Sum:       float64(r.sum),
		Quantiles: map[float64]float64{0.5: quantile(0.5)},
	}
	if s.level == Advanced {
		for _, share := range []float64{0.9, 0.95, 0.99} {
			sample.Quantiles[share] = quantile(share)
		}
	}
	return sample
}

func (s *SummarySet) samples(name string, visit func(*Sample)) {
	s.inOrder(func(key string, m *Summary) {
		sample := m.sample(name)
		sample.Label, sample.Value = keyLabel, key
		visit(sample)
	})
}

func (f *family) samples(name string, visit func(*Sample)) {
	for i, value := range f.values {
		s := &Sample{Name: name, Help: f.help, Label: f.label, Value: value}
		if f.histograms != nil {
			s.Kind = KindHistogram
			s.Count, s.Sum, s.Buckets = f.histograms[i].Buckets()
		} else {
			s.Kind, s.Number = KindCounter, float64(f.counters[i].Value())
		}
		visit(s)
	}
	if f.gauges == nil {
		return
	}
	for value, number := range f.gauges() {
		visit(&Sample{Name: name, Help: f.help, Label: f.label, Value: value, Number: number})
	}
}

// Names returns the names of all metrics, in order of registration.
func (r *Registry) Names() []string {
	names := make([]string, len(r.metrics))
	for i := range r.metrics {
		names[i] = r.metrics[i].name
	}
	return names
}
