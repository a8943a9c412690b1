// Package expose serves a server's metrics to Prometheus, in its text format and in OpenMetrics.
package expose

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/socket"
)

// Options configure what is shown. The comments name the configuration keys.
type Options struct {
	Runtime bool // metricsProvider.exportJvmInfo: include metrics of Go's runtime and of the process
	// CounterSuffix appends _total to the names of Apache's counters, as Apache 3.10 does; without it they have no
	// suffix, as in 3.9 (metricsProvider.counterSuffix).
	CounterSuffix bool
}

// scrapesMax bounds concurrent scrapes: two Prometheus servers, and some by hand. Further ones get 503.
const scrapesMax = 4

// Handler answers GET and HEAD with all metrics, or with those that the request names (selection): in OpenMetrics if
// the client prefers that, and compressed with gzip if it accepts that. The names are the same in both formats.
func Handler(r *metrics.Registry, o Options) http.Handler {
	text, open := prometheus.NewRegistry(), prometheus.NewRegistry()
	for _, to := range []*prometheus.Registry{text, open} {
		to.MustRegister(&collector{from: r, o: o, open: to == open})
		if o.Runtime {
			to.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		}
	}
	room := make(chan struct{}, scrapesMax)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics are read by GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			http.Error(w, fmt.Sprintf("%d scrapes are running already", scrapesMax), http.StatusServiceUnavailable)
			return
		}
		from, opts := text, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
		if expfmt.NegotiateIncludingOpenMetrics(req.Header).FormatType() == expfmt.TypeOpenMetrics {
			from, opts.EnableOpenMetrics = open, true
		}
		promhttp.HandlerFor(selection{from, req.URL.Query()["name[]"]}, opts).ServeHTTP(w, req)
	})
}

// A selection gathers the metrics of the given names, as Apache's endpoint does with the parameters name[] of a
// scrape; all metrics if there are no names. One name of a summary, such as updatelatency_count, selects all of it.
type selection struct {
	from  prometheus.Gatherer
	names []string
}

// Gather implements prometheus.Gatherer.
func (s selection) Gather() ([]*dto.MetricFamily, error) {
	all, err := s.from.Gather()
	if len(s.names) == 0 {
		return all, err
	}
	asked := make(map[string]bool, len(s.names))
	for _, name := range s.names {
		asked[name] = true
	}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc([]string{"", "_count", "_sum", "_bucket"}, func(suffix string) bool {
			return asked[f.GetName()+suffix]
		})
	}), err
}

// A collector provides a registry's metrics to client_golang. It describes none in advance, since clients determine
// the keys of sets.
type collector struct {
	from *metrics.Registry
	o    Options
	open bool // for OpenMetrics, whose counters must end in _total: other counters become of type unknown
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.from.Samples(func(s *metrics.Sample) {
		if m, err := c.metric(s); err == nil { // an error means an invalid name in the program, which tests find
			to <- m
		}
	})
}

// totalSuffix is the suffix of counters.
const totalSuffix = "_total"

func (c *collector) metric(s *metrics.Sample) (prometheus.Metric, error) {
	name := s.Name
	if s.Kind == metrics.KindCounter && s.Apache && c.o.CounterSuffix {
		name = strings.TrimSuffix(name, totalSuffix) + totalSuffix // ZooKeeper has a counter named op_count_total
	}
	var labels, values []string
	if s.Label != "" {
		labels, values = []string{s.Label}, []string{labelText(s.Value)}
	}
	desc := prometheus.NewDesc(name, s.Help, labels, nil)
	switch s.Kind {
	case metrics.KindSummary:
		return prometheus.NewConstSummary(desc, s.Count, s.Sum, s.Quantiles, values...)
	case metrics.KindHistogram:
		m, err := prometheus.NewConstHistogram(desc, s.Count, s.Sum, s.Buckets, values...)
		return native{m}, err
	case metrics.KindCounter:
		if c.open && !strings.HasSuffix(name, totalSuffix) {
			return prometheus.NewConstMetric(desc, prometheus.UntypedValue, s.Number, values...)
		}
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Number, values...)
	}
	return prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Number, values...)
}

// labelText returns a label's value as UTF-8; invalid UTF-8 is quoted as in Go, so that values remain distinct.
func labelText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

// Limits on what clients of the endpoint may use.
const (
	// connectionsMax bounds the connections, and with them the TLS handshakes. A Prometheus server keeps one.
	connectionsMax = 100
	headerBytesMax = 16 << 10
	headerTimeout  = 10 * time.Second
	answerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
)

// Serve serves /metrics on l, which Listen has opened, until l is closed. hosts are names of this host in lower case:
// without TLS others, which may be strangers', are refused (socket.ForeignHost), as by the admin server. If hosts is
// nil, requests by any name are answered.
func Serve(l net.Listener, handler http.Handler, hosts []string, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	answer := own(mux, hosts, log)
	if p, ok := l.(*socket.Port); ok {
		answer = p.Checked(answer)
	}
	s := &http.Server{
		Handler: answer, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if err := s.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
		log.Error("the endpoint for metrics has ended", "address", l.Addr().String(), "err", err, "code", "ZD-4016")
	}
}

// own returns next, for requests that don't name a stranger as their Host. The first one that does is logged: it may
// come from a Prometheus whose targets have a name that isn't configured on this server.
func own(next http.Handler, hosts []string, log *slog.Logger) http.Handler {
	var told sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hosts == nil || r.TLS != nil || !socket.ForeignHost(r.Host, hosts) {
			next.ServeHTTP(w, r)
			return
		}
		told.Do(func() {
			log.Warn("the metrics were requested under a name that isn't known to be this server's; the request is refused",
				"host", r.Host, "client", r.RemoteAddr, "code", "ZD-4031")
		})
		http.Error(w, fmt.Sprintf("this server isn't called %.100q; ask it by its address, by a name of a server line or of admin.hostNames, or over TLS",
			r.Host), http.StatusMisdirectedRequest)
	})
}

// Listen opens the port of the endpoint with b, and with TLS as t says; a nil t means no TLS.
func Listen(b *socket.Binder, host string, port int, t *socket.TLS) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := b.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("listen for Prometheus on %s: %w (is another server's endpoint there? metricsProvider.httpPort and httpsPort choose the port)",
			addr, err)
	}
	return socket.NewPort(l, t, headerTimeout, connectionsMax), nil
}
