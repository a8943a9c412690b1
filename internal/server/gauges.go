package server

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
)

// Metrics returns all metrics of the server. mntr, the admin server and Prometheus show the same ones.
func (s *Server) Metrics() *metrics.Registry { return s.meters.Registry }

// gauges returns a registry with the metrics that are read on request. Those of a leader exist on
// every server; a standalone server counts as an ensemble without other members.
func (s *Server) gauges() *metrics.Registry {
	reg := &metrics.Registry{}
	whole := func(name string, read func() int64) {
		reg.Gauge(name, func() metrics.Value { return metrics.Int(read()) })
	}
	// One View serves a whole pass, because creating one waits for the Apply under way. Concurrent
	// passes use the newer View.
	var last atomic.Pointer[replica.View]
	reg.BeforeEach(func() { last.Store(new(s.replica.View())) })
	view := func(name string, read func(v *replica.View) int64) {
		whole(name, func() int64 { return read(last.Load()) })
	}
	zero := func(names ...string) {
		for _, name := range names {
			whole(name, func() int64 { return 0 })
		}
	}
	reg.Gauge("avg_latency", func() metrics.Value { return metrics.Float(last.Load().Latency.Avg) })
	view("max_latency", func(v *replica.View) int64 { return v.Latency.Max })
	view("min_latency", func(v *replica.View) int64 { return v.Latency.Min })
	view("packets_received", func(v *replica.View) int64 { return v.Received })
	view("packets_sent", func(v *replica.View) int64 { return v.Sent })
	whole("num_alive_connections", func() int64 { return int64(s.connections.count()) })
	view("outstanding_requests", func(v *replica.View) int64 { return v.Outstanding })
	whole("uptime", func() int64 { return s.now() / 1e6 })
	view("znode_count", func(v *replica.View) int64 { return int64(v.Nodes) })
	view("watch_count", func(v *replica.View) int64 { return int64(v.Watches) })
	view("ephemerals_count", func(v *replica.View) int64 { return int64(v.Ephemerals) })
	view("approximate_data_size", func(v *replica.View) int64 { return int64(v.DataSize) })
	view("global_sessions", func(v *replica.View) int64 { return int64(v.GlobalSessions) })
	view("local_sessions", func(v *replica.View) int64 { return int64(v.LocalSessions) })
	whole("open_file_descriptor_count", openFiles)
	whole("max_file_descriptor_count", openFilesMax)
	reg.Gauge("connection_drop_probability", func() metrics.Value { return metrics.Float(0) })
	view("last_client_response_size", func(v *replica.View) int64 { return v.Responses.Last })
	view("max_client_response_size", func(v *replica.View) int64 { return v.Responses.Max })
	view("min_client_response_size", func(v *replica.View) int64 { return v.Responses.Min })
	whole("outstanding_tls_handshake", s.handshakes.underWay.Load)
	view("auth_failed_count", func(v *replica.View) int64 { return v.AuthFailed })
	whole("non_mtls_remote_conn_count", s.handshakes.plainRemote.Load)
	whole("non_mtls_local_conn_count", s.handshakes.plainLocal.Load)
	whole("clock_ms", func() int64 { return time.Now().UnixMilli() }) // zooid doctor compares it with its own machine's
	view("clock_correction_ms", func(v *replica.View) int64 { return v.ClockCorrection })
	view("acl_rules_waiting", func(v *replica.View) int64 { return int64(len(v.RulesWaiting)) })
	view("feature_level", func(v *replica.View) int64 { return int64(v.FeatureLevel) })
	whole("quorum_size", func() int64 { return int64(len(s.peer.Status().Voters)) })
	followers := func(name string, counts func(p quorum.Progress) bool) {
		whole(name, func() int64 { return countFollowers(s.peer.Status(), counts) })
	}
	followers("learners", func(p quorum.Progress) bool { return p.Active })
	followers("synced_followers", func(p quorum.Progress) bool { return p.Active && p.Synced && p.Voter })
	followers("synced_non_voting_followers", func(p quorum.Progress) bool { return p.Active && p.Synced && p.Guest })
	followers("synced_observers", func(p quorum.Progress) bool { return p.Active && p.Synced && !p.Voter && !p.Guest })
	zero("pending_syncs")
	view("leader_uptime", func(v *replica.View) int64 {
		if v.LeadingSince == 0 {
			return 0
		}
		return s.now()/1e6 - v.LeadingSince
	})
	view("last_proposal_size", func(v *replica.View) int64 { return v.Proposals.Last })
	view("max_proposal_size", func(v *replica.View) int64 { return v.Proposals.Max })
	view("min_proposal_size", func(v *replica.View) int64 { return v.Proposals.Min })
	for _, g := range memory.Figures() {
		view(g.Name, func(v *replica.View) int64 { return g.Read(&v.Memory) })
	}
	whole("memory_limit", func() int64 { return s.opt.MemoryLimit })
	view("memory_refused", func(v *replica.View) int64 { return v.MemoryRefused })
	whole("disk_free_bytes", s.space.free.Load)
	whole("disk_free_files", s.space.files.Load) // 0 if the file system doesn't say
	whole("log_awaits_room", s.space.awaitsRoom)
	whole("fsync_in_flight_ms", func() int64 { return s.dir.Log().WritingFor().Milliseconds() })
	whole("snapshot_in_flight_ms", func() int64 { return s.dir.SnapshotWritingFor().Milliseconds() })
	whole("last_turn_ms", func() int64 { return s.peer.SinceTurn().Milliseconds() })
	whole("draining", func() int64 {
		if s.Draining() {
			return 1
		}
		return 0
	})
	whole("disk_level", s.space.level.Load) // 0 for room, 1 for little, 2 for so little that writes are refused
	for _, g := range quotaGauges() {
		reg.GaugeSet(g.name, func() map[string]metrics.Value { return g.sums(s.replica) })
	}
	s.ownGauges(reg)
	return reg
}

// countFollowers counts the followers that a leader tracks and that counts selects.
func countFollowers(st quorum.Status, counts func(p quorum.Progress) bool) (n int64) {
	for _, p := range st.Followers {
		if counts(p) {
			n++
		}
	}
	return n
}

// synced is called for each fdatasync of the log.
func (e *engine) synced(d time.Duration, _ int) {
	e.meters.Fsync.Observe(d.Milliseconds())
	e.meters.Flush.Observe(d.Milliseconds())
	e.meters.Stages.Log.Observe(int64(d))
	e.meters.LastFsync.Store(int64(d))
	if limit := e.opt.FsyncWarning; limit > 0 && d > limit {
		e.log.Warn("the log's disk is slow; writes wait for it", "fsync", d.Round(time.Millisecond),
			"fsync.warningthresholdms", limit.Milliseconds(), "code", "ZD-2002")
	}
}

// A quotaGauge adds up one number of all quotas, grouped by top-level path.
type quotaGauge struct {
	name, znode string
	keys        []string // the first key that is set counts
}

func quotaGauges() []quotaGauge {
	return []quotaGauge{
		{"quota_count_limit_per_namespace", "zookeeper_limits", []string{"countHardLimit", "count"}},
		{"quota_bytes_limit_per_namespace", "zookeeper_limits", []string{"byteHardLimit", "bytes"}},
		{"quota_count_usage_per_namespace", "zookeeper_stats", []string{"count"}},
		{"quota_bytes_usage_per_namespace", "zookeeper_stats", []string{"bytes"}},
	}
}

// sums returns one number for each namespace. Namespaces with long names share one entry, as in all sets.
func (g *quotaGauge) sums(r *replica.Replica) map[string]metrics.Value {
	sums := map[string]int64{}
	for name, n := range r.Quotas(g.znode, g.read) {
		if len(name) > metrics.KeyBytesMax {
			name = metrics.OtherKey
		}
		sums[name] += n
	}
	values := map[string]metrics.Value{}
	for name, n := range sums {
		values[name] = metrics.Int(n)
	}
	return values
}

// read extracts the number from data such as "count=5,bytes=-1=;byteHardLimit=100"; -1 means none.
func (g *quotaGauge) read(data string) (int64, bool) {
	figures := map[string]int64{}
	for _, f := range strings.FieldsFunc(data, func(c rune) bool { return c == ',' || c == ';' }) {
		key, value, _ := strings.Cut(f, "=")
		if n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64); err == nil && n >= 0 {
			figures[key] = n
		}
	}
	for _, key := range g.keys {
		if n, ok := figures[key]; ok {
			return n, true
		}
	}
	return 0, false
}
