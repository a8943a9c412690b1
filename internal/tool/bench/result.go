package bench

import (
	"encoding/json"
	"io"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/jute"
)

// result has the figures of one trial of a scenario. Its JSON form is one line of -json. Figures that weren't measured
// are 0 and omitted.
type result struct {
	Scenario  string             `json:"scenario"`
	Profile   string             `json:"profile,omitempty"` // in a comparison
	Server    string             `json:"server,omitempty"`  // in a comparison
	Round     int                `json:"round,omitempty"`   // in a comparison, from 1
	Conns     int                `json:"conns,omitempty"`
	Depth     int                `json:"depth,omitempty"` // outstanding requests per connection
	Rate      float64            `json:"rate_per_s,omitempty"`
	Size      int                `json:"size,omitempty"`
	Ops       int64              `json:"ops"`
	Errors    map[string]int64   `json:"errors,omitempty"` // by code
	Seconds   float64            `json:"seconds"`
	PerSec    float64            `json:"ops_per_s"`
	P50       float64            `json:"p50_ms,omitempty"`
	P90       float64            `json:"p90_ms,omitempty"`
	P99       float64            `json:"p99_ms,omitempty"`
	P999      float64            `json:"p999_ms,omitempty"`
	Max       float64            `json:"max_ms,omitempty"`
	ServerCPU float64            `json:"server_cpu_us_per_op,omitempty"`
	ServerRSS float64            `json:"server_rss_mib,omitempty"`
	ClientCPU float64            `json:"client_cpu_us_per_op,omitempty"`
	Others    float64            `json:"others_cpu_percent,omitempty"` // percentage of the machine used by other programs
	Extra     map[string]float64 `json:"extra,omitempty"`              // of this scenario only; names end with the unit
	Failed    string             `json:"failed,omitempty"`
}

// setLatency sets the percentiles.
func (r *result) setLatency(l *latencies) {
	r.P50, r.P90, r.P99, r.P999, r.Max = l.quantileMs(.5), l.quantileMs(.9), l.quantileMs(.99), l.quantileMs(.999),
		l.quantileMs(1)
}

// setTime sets the duration and the throughput of Ops in it.
func (r *result) setTime(d time.Duration) {
	r.Seconds = d.Seconds()
	if d > 0 {
		r.PerSec = float64(r.Ops) / r.Seconds
	}
}

// setCost sets the processor time per operation for n operations, and the share of other programs.
func (r *result) setCost(c servers.Cost, n int64) {
	if n > 0 {
		r.ServerCPU = float64(c.Server.Nanoseconds()) / 1e3 / float64(n)
		r.ClientCPU = float64(c.Client.Nanoseconds()) / 1e3 / float64(n)
	}
	if c.Server > 0 {
		r.Others = c.Others()
	}
}

// set adds a figure of this scenario; its name ends with the unit.
func (r *result) set(name string, v float64) {
	if r.Extra == nil {
		r.Extra = map[string]float64{}
	}
	r.Extra[name] = v
}

// countErrors adds errors by their code's name.
func (r *result) countErrors(errs map[jute.Code]int64) {
	for code, n := range errs {
		r.addErrors(code.String(), n)
	}
}

// addAllErrors adds the errors of a part of the trial.
func (r *result) addAllErrors(errs map[string]int64) {
	for name, n := range errs {
		r.addErrors(name, n)
	}
}

func (r *result) addErrors(name string, n int64) {
	if n == 0 {
		return
	}
	if r.Errors == nil {
		r.Errors = map[string]int64{}
	}
	r.Errors[name] += n
}

// errorCount returns the number of errors of all codes.
func (r *result) errorCount() (n int64) {
	for _, v := range r.Errors {
		n += v
	}
	return n
}

// figure returns one figure by its JSON name; false if it wasn't measured.
func (r *result) figure(name string) (float64, bool) {
	if name == "others_cpu_percent" {
		return r.Others, r.ServerCPU > 0
	}
	named := map[string]float64{
		"ops_per_s": r.PerSec, "seconds": r.Seconds, "p50_ms": r.P50, "p90_ms": r.P90, "p99_ms": r.P99,
		"p999_ms": r.P999, "max_ms": r.Max, "server_cpu_us_per_op": r.ServerCPU, "server_rss_mib": r.ServerRSS,
		"client_cpu_us_per_op": r.ClientCPU,
	}
	if v, ok := named[name]; ok {
		return v, v != 0
	}
	v, ok := r.Extra[name]
	return v, ok
}

// writeJSON writes the result as one line.
func (r *result) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
