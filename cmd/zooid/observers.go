//go:build unix

package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/metrics/expose"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/socket"
)

// newLog returns the server's own log, whose level can be changed while it runs.
func newLog(c *config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevel(c.Level))
	return slog.New(runbook.Handler(logHandler(c, w, level))), level
}

// logHandler returns a handler that writes the log in the configured format.
func logHandler(c *config.Log, w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: asMyID}
	if c.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// asMyID replaces server 0's id in the consensus protocol, which the packages below know alone, by its myid.
func asMyID(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindUint64 {
		if id := a.Value.Uint64(); id == serverid.Raft(0) {
			a.Value = slog.Int64Value(0)
		}
		return a
	}
	if text := a.Value.String(); serverid.Text(text) != text {
		a.Value = slog.StringValue(serverid.Text(text))
	}
	return a
}

// logLevel returns the level of log.level.
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

// observers expose a server's metrics: at the endpoint for Prometheus and on a page of the admin server.
type observers struct {
	metrics   endpoint
	listeners []net.Listener // of the endpoint
	hosts     []string       // names by which Prometheus may ask without TLS, in addition to those of every host; nil: any
}

// observe opens the ports that the configuration asks for. It adds the stores of a TLS endpoint to the server's.
func observe(cfg *config.Config, of *server.Options, log *slog.Logger) (*observers, error) {
	w := &observers{metrics: endpoint{options: exposeOptions(&cfg.Metrics)}}
	// Apache's endpoint answers to any name, and a Prometheus often asks by one that no server line has. So others are
	// refused only where an operator has said which names there are, or wants all doors shut.
	if len(cfg.Admin.HostNames) > 0 || cfg.Profile == config.Strict {
		w.hosts = append(ownHosts(cfg), strings.ToLower(cfg.Metrics.Host))
	}
	if cfg.Metrics.Provider != config.PrometheusProvider {
		return w, nil
	}
	bind := &socket.Binder{Retries: of.BindRetries, Waiting: socket.LogWaiting(log)}
	var secure *socket.TLS
	if cfg.Metrics.SecurePort >= 0 {
		port, err := keystore.NewPort(metricsPortOptions(&cfg.Metrics, log))
		if err != nil {
			return nil, runbook.Errorf("ZD-1240", "set up TLS for the metrics (metricsProvider.ssl.* keys): %w", err)
		}
		for _, note := range port.Notes() {
			log.Warn("TLS for the metrics: "+note, "code", "ZD-1241")
		}
		of.Stores = append(of.Stores, storesOf("metrics endpoint", port))
		secure = &socket.TLS{Config: port.Config(), Plain: cfg.Metrics.Port == cfg.Metrics.SecurePort, Check: port.Check}
		if err := w.open(bind, cfg.Metrics.Host, cfg.Metrics.SecurePort, secure, log); err != nil {
			return nil, err
		}
	}
	if cfg.Metrics.Port >= 0 && (secure == nil || !secure.Plain) {
		if err := w.open(bind, cfg.Metrics.Host, cfg.Metrics.Port, nil, log); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// open opens one port of the endpoint.
func (w *observers) open(bind *socket.Binder, host string, port int, t *socket.TLS, log *slog.Logger) error {
	l, err := expose.Listen(bind, host, port, t)
	if err != nil {
		return err
	}
	w.listeners = append(w.listeners, l)
	log.Info("Prometheus can read the metrics", "address", l.Addr().String(), "path", metricsPath, "tls", t.Text())
	go expose.Serve(l, &w.metrics, w.hosts, log)
	return nil
}

// metricsPortOptions returns the keystore package's options for the endpoint.
func metricsPortOptions(m *config.Metrics, log *slog.Logger) keystore.Options {
	o := portOptions(&m.TLS, "metrics endpoint", log)
	switch {
	case m.NeedAuth:
		o.ClientAuth = "need"
	case m.WantAuth:
		o.ClientAuth = "want"
	default:
		o.ClientAuth = "none"
	}
	return o
}

// metricsPath is the path of the metrics, both at the endpoint and at the admin server.
const metricsPath = "/metrics"

func exposeOptions(c *config.Metrics) expose.Options {
	return expose.Options{Runtime: c.Runtime, CounterSuffix: c.CounterSuffix}
}

// opened makes s the server whose metrics are exposed.
func (w *observers) opened(s *server.Server) {
	handler := expose.Handler(s.Metrics(), w.metrics.options)
	w.metrics.now.Store(&handler)
}

// close closes the endpoint's listeners. A connection that is being answered ends with the process.
func (w *observers) close() {
	for _, l := range w.listeners {
		l.Close()
	}
}

// An endpoint serves the metrics of the running server.
type endpoint struct {
	options expose.Options
	now     atomic.Pointer[http.Handler] // nil until a server runs
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
