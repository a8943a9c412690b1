//go:build unix

package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/metrics/expose"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
)

// newLog returns the server's own log, whose level can be changed while it runs.
func newLog(c *config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevel(c.Level))
	return slog.New(runbook.Handler(logHandler(c, w, level))), level
}

// logHandler returns what writes the log in its format.
func logHandler(c *config.Log, w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// logLevel returns what log.level means.
func logLevel(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// observers are what shows others a server's metrics: the endpoint for Prometheus, and the
// page of the admin server.
type observers struct {
	metrics  endpoint
	listener net.Listener // of the endpoint; nil for none
}

// observe opens what the configuration asks for.
func observe(cfg *config.Config, log *slog.Logger) (*observers, error) {
	w := &observers{metrics: endpoint{options: exposeOptions(&cfg.Metrics)}}
	if cfg.Metrics.Provider != config.PrometheusProvider {
		return w, nil
	}
	l, err := expose.Listen(cfg.Metrics.Host, cfg.Metrics.Port)
	if err != nil {
		return nil, err
	}
	w.listener = l
	log.Info("Prometheus can read the metrics", "address", l.Addr().String(), "path", metricsPath)
	go expose.Serve(l, &w.metrics, log)
	return w, nil
}

// metricsPath is where the admin server has the metrics, as the endpoint has.
const metricsPath = "/metrics"

func exposeOptions(c *config.Metrics) expose.Options {
	return expose.Options{Runtime: c.Runtime, CounterSuffix: c.CounterSuffix}
}

// opened tells which server runs now.
func (w *observers) opened(s *server.Server) {
	handler := expose.Handler(s.Metrics(), w.metrics.options)
	w.metrics.now.Store(&handler)
}

// close ends the endpoint.
func (w *observers) close() {
	if w.listener != nil {
		w.listener.Close()
	}
}

// An endpoint answers for the server that runs now.
type endpoint struct {
	options expose.Options
	now     atomic.Pointer[http.Handler] // nil while none runs yet
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := e.now.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(1))
	http.Error(w, "the server is starting", http.StatusServiceUnavailable)
}
