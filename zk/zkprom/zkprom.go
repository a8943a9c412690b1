// Package zkprom counts the requests and events of ZooKeeper clients, for Prometheus.
//
//	metrics := zkprom.New(zkprom.Options{})
//	prometheus.MustRegister(metrics)
//	c, err := zk.Open(ctx, "zk1,zk2,zk3/app", zk.Options{Hooks: []zk.Hooks{metrics.Hooks()}})
//
// It is a module of its own, so that package zk needs no other module.
//
//	zk_client_requests_total{operation,result}     requests that have ended; result is zk.RequestEnd.Result
//	zk_client_request_duration_seconds{operation}  histogram of their durations
//	zk_client_sent_bytes_total{operation}          bytes of their requests, each once, however often it was sent
//	zk_client_received_bytes_total{operation}      bytes of their replies
//	zk_client_retries_total{operation}             how often they were sent again, by zk.Options.Retry
//	zk_client_connections                          connected clients, also to read-only servers
//	zk_client_connect_attempts_total{result}       attempts to connect to a server; result is success or failure
//	zk_client_state_changes_total{state}           changes of the clients' states, by the new state
//	zk_client_notifications_total{type}            notifications of watches, by type, such as NodeCreated
//
// The values of labels are operations, codes, states and types of events. A state is the text of a zk.State with
// underscores, such as connected_read_only. No label has a path, server or session, so the number of series is bounded.
// zk_client_requests_total has less than a thousand, and some dozens in an ordinary program. A duration begins with the
// call and includes waits for a connection, pauses and repetitions. A call that waits isn't counted before it ends. The
// operation exists has result="NoNode" if the znode is missing, which isn't a failure.
package zkprom

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zooid-project/zooid/zk"
)

// Options configure a Collector. The zero value is a good choice.
type Options struct {
	// Labels are added to every metric, to distinguish several Collectors in one registry.
	Labels prometheus.Labels

	// Buckets are the upper bounds of the buckets of durations, in seconds, in increasing order: with another order New
	// panics. Nil means DefaultBuckets.
	Buckets []float64
}

// DefaultBuckets range from a quarter of a millisecond, the time of a reply from memory, to ten seconds, the usual
// session timeout.
var DefaultBuckets = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

// A Collector has the metrics of the clients that use its Hooks. Several goroutines may call its methods at once.
type Collector struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	sent     *prometheus.CounterVec
	received *prometheus.CounterVec
	retries  *prometheus.CounterVec
	clients  prometheus.Gauge
	attempts *prometheus.CounterVec
	changes  *prometheus.CounterVec
	events   *prometheus.CounterVec
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a Collector. The caller must register it.
func New(opt Options) *Collector {
	if opt.Buckets == nil {
		opt.Buckets = DefaultBuckets
	}
	// Buckets in another order panic here, and not at the first request.
	prometheus.NewHistogram(prometheus.HistogramOpts{Name: "buckets", Buckets: opt.Buckets})
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "zk_client", Name: name, Help: help, ConstLabels: opt.Labels,
		}, labels)
	}
	return &Collector{
		requests: counter("requests_total", "Requests that have ended, by ZooKeeper's operation and code.",
			"operation", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "zk_client", Name: "request_duration_seconds", ConstLabels: opt.Labels, Buckets: opt.Buckets,
			Help: "How long requests took, from the call to its end, repetitions included.",
		}, []string{"operation"}),
		sent:     counter("sent_bytes_total", "Bytes of requests.", "operation"),
		received: counter("received_bytes_total", "Bytes of replies.", "operation"),
		retries:  counter("retries_total", "How often requests were sent again.", "operation"),
		clients: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "zk_client", Name: "connections", ConstLabels: opt.Labels, Help: "Clients that are connected.",
		}),
		attempts: counter("connect_attempts_total", "Attempts to connect to a server.", "result"),
		changes:  counter("state_changes_total", "Changes of the clients' states, by the new state.", "state"),
		events:   counter("notifications_total", "Notifications of watches.", "type"),
	}
}

// Hooks returns hooks for Options.Hooks of any number of clients.
func (c *Collector) Hooks() zk.Hooks {
	return zk.Hooks{Request: c.request, Connect: c.connect, State: c.state, Watch: c.watch}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, each := range c.all() {
		each.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, each := range c.all() {
		each.Collect(to)
	}
}

func (c *Collector) all() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.duration, c.sent, c.received, c.retries, c.clients, c.attempts, c.changes,
		c.events}
}

func (c *Collector) request(_ context.Context, r zk.RequestEnd) {
	c.requests.WithLabelValues(r.Op, r.Result()).Inc()
	c.duration.WithLabelValues(r.Op).Observe(r.Duration.Seconds())
	c.sent.WithLabelValues(r.Op).Add(float64(r.Sent))
	c.received.WithLabelValues(r.Op).Add(float64(r.Received))
	c.retries.WithLabelValues(r.Op).Add(float64(r.Attempts - 1))
}

func (c *Collector) connect(_ string, _ time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	c.attempts.WithLabelValues(result).Inc()
}

func (c *Collector) state(before zk.State, now zk.StateChange) {
	c.changes.WithLabelValues(word(now.State.String())).Inc()
	c.clients.Add(connections(now.State) - connections(before))
}

func (c *Collector) watch(e zk.Event) { c.events.WithLabelValues(e.Type.String()).Inc() }

// word returns a state's name, such as "authentication failed", as one word.
func word(state string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(state)
}

// connections returns the number of connections of a client in state s.
func connections(s zk.State) float64 {
	if s == zk.StateConnected || s == zk.StateConnectedReadOnly {
		return 1
	}
	return 0
}
