package metrics

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
)

// ContentType is the media type of what WritePrometheus writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// WritePrometheus writes all metrics in Prometheus's text format 0.0.4, named as Apache's provider names them: no
// prefix, counters end in _total, sets have the label key, summaries the quantile 0.5 and, if Advanced, 0.95 and 0.99 of
// all values since the last Reset. The error is w's.
func (r *Registry) WritePrometheus(w io.Writer) error {
	var to page
	for _, m := range r.metrics {
		m.prometheus(m.name, &to)
	}
	_, err := w.Write(to.Bytes())
	return err
}

// page is the text being written.
type page struct{ bytes.Buffer }

// head begins a metric.
func (p *page) head(name, help, kind string) {
	p.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes one line; labels are name and value in turn.
func (p *page) sample(name string, v float64, labels ...string) {
	p.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		p.WriteByte("{,"[min(i, 1)])
		p.WriteString(labels[i] + `="` + escapeLabel(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		p.WriteByte('}')
	}
	p.WriteString(" " + promNumber(v) + "\n")
}

// promNumber formats whole numbers plain and the rest as short as can be read back.
func promNumber(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// escapeLabel escapes what the format asks for and replaces bytes that aren't UTF-8.
func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func (g gauge) prometheus(name string, to *page) {
	to.head(name, name, "gauge")
	to.sample(name, g().Float64())
}

func (g gaugeSet) prometheus(name string, to *page) {
	to.head(name, name, "gauge")
	g.inOrder(func(key string, v Value) { to.sample(name, v.Float64(), "key", key) })
}

// totalName ends a counter's name in _total, once: ZooKeeper has a counter named op_count_total.
func totalName(name string) string { return strings.TrimSuffix(name, "_total") + "_total" }

func (c *Counter) prometheus(name string, to *page) {
	to.head(totalName(name), name+" counter", "counter")
	c.samples(name, to)
}

func (c *Counter) samples(name string, to *page, labels ...string) {
	to.sample(totalName(name), float64(c.Value()), labels...)
}

// prometheus writes a set of counters under one head.
func (s *CounterSet) prometheus(name string, to *page) {
	to.head(totalName(name), name+" counter", "counter")
	s.inOrder(func(key string, c *Counter) { c.samples(name, to, "key", key) })
}

func (s *Summary) prometheus(name string, to *page) {
	to.head(name, name+" summary", "summary")
	s.samples(name, to)
}

func (s *Summary) samples(name string, to *page, labels ...string) {
	r := s.read()
	quantile := func(label string, share float64) {
		v := math.NaN()
		if r.observed > 0 {
			v = float64(r.percentile(share))
		}
		to.sample(name, v, append(labels[:len(labels):len(labels)], "quantile", label)...)
	}
	quantile("0.5", 0.5)
	if s.level == Advanced {
		quantile("0.95", 0.95)
		quantile("0.99", 0.99)
	}
	to.sample(name+"_count", float64(r.cnt), labels...)
	to.sample(name+"_sum", float64(r.sum), labels...)
}

// prometheus writes a set of summaries under one head.
func (s *SummarySet) prometheus(name string, to *page) {
	to.head(name, name+" summary", "summary")
	s.inOrder(func(key string, m *Summary) { m.samples(name, to, "key", key) })
}
