package server

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Metrics returns all metrics of the server, which mntr, the admin server and
// Prometheus show alike.
func (s *Server) Metrics() *metrics.Registry { return s.meters.registry }

// gauges returns a registry with the numbers that are read when somebody asks.
// Those of a leader are there on every server; a standalone one is an ensemble
// that has no other member.
func (s *Server) gauges() *metrics.Registry {
	reg := &metrics.Registry{}
	whole := func(name string, read func() int64) {
		reg.Gauge(name, func() metrics.Value { return metrics.Int(read()) })
	}
	state := func(name string, read func(t *tree.Tree) int) {
		whole(name, func() int64 {
			s.replica.mu.RLock()
			defer s.replica.mu.RUnlock()
			return int64(read(s.replica.tree))
		})
	}
	zero := func(names ...string) {
		for _, name := range names {
			whole(name, func() int64 { return 0 })
		}
	}
	reg.Gauge("avg_latency", func() metrics.Value { return metrics.Float(s.replica.stats.latency.public().Avg) })
	whole("max_latency", func() int64 { return s.replica.stats.latency.max.Load() })
	whole("min_latency", func() int64 { return s.replica.stats.latency.least() })
	whole("packets_received", func() int64 { return s.replica.stats.received.Load() })
	whole("packets_sent", func() int64 { return s.replica.stats.sent.Load() })
	whole("num_alive_connections", func() int64 { return int64(s.connCount()) })
	whole("outstanding_requests", func() int64 { return s.replica.unanswered.count() })
	whole("uptime", func() int64 { return s.now() / 1e6 })
	// Apache keeps the root twice, under "" and "/".
	state("znode_count", func(t *tree.Tree) int { return t.NodeCount() + 1 })
	whole("watch_count", s.watchCount)
	state("ephemerals_count", (*tree.Tree).EphemeralsCount)
	state("approximate_data_size", func(t *tree.Tree) int { return t.ApproximateDataSize() + len("/") })
	state("global_sessions", (*tree.Tree).GlobalSessions)
	whole("local_sessions", s.localSessions)
	whole("open_file_descriptor_count", openFiles)
	whole("max_file_descriptor_count", openFilesMax)
	reg.Gauge("connection_drop_probability", func() metrics.Value { return metrics.Float(0) })
	whole("last_client_response_size", func() int64 { return s.meters.responses.last.Load() })
	whole("max_client_response_size", func() int64 { return s.meters.responses.largest.Load() })
	whole("min_client_response_size", func() int64 { return s.meters.responses.least.Load() })
	whole("outstanding_tls_handshake", s.secure.handshakes.Load)
	whole("auth_failed_count", func() int64 { return s.replica.stats.authFailed.Load() })
	whole("non_mtls_remote_conn_count", s.secure.plainRemote.Load)
	whole("non_mtls_local_conn_count", s.secure.plainLocal.Load)
	whole("clock_correction_ms", func() int64 { return s.replica.correction.Load() })
	whole("feature_level", func() int64 { return int64(s.replica.level.Load()) })
	whole("quorum_size", func() int64 { return int64(len(s.peer.Status().Voters)) })
	followers := func(name string, counts func(p quorum.Progress) bool) {
		whole(name, func() int64 { return s.countFollowers(counts) })
	}
	followers("learners", func(p quorum.Progress) bool { return p.Active })
	followers("synced_followers", func(p quorum.Progress) bool { return p.Active && p.Synced && p.Voter })
	zero("synced_non_voting_followers") // those who don't vote are observers
	followers("synced_observers", func(p quorum.Progress) bool { return p.Active && p.Synced && !p.Voter })
	zero("pending_syncs")
	whole("leader_uptime", s.leaderUptime)
	whole("last_proposal_size", func() int64 { return s.meters.proposed.last.Load() })
	whole("max_proposal_size", func() int64 { return s.meters.proposed.largest.Load() })
	whole("min_proposal_size", func() int64 { return s.meters.proposed.least.Load() })
	for _, g := range memory.Figures() {
		whole(g.Name, s.memoryGauge(g.Read))
	}
	whole("memory_limit", func() int64 { return s.opt.MemoryLimit })
	whole("memory_refused", func() int64 { return s.replica.memory.refused.Load() })
	for _, g := range quotaGauges() {
		reg.GaugeSet(g.name, func() map[string]metrics.Value { return s.quotas(g) })
	}
	return reg
}

// countFollowers counts those that a leader follows the progress of.
func (s *Server) countFollowers(counts func(p quorum.Progress) bool) (n int64) {
	for _, p := range s.peer.Status().Followers {
		if counts(p) {
			n++
		}
	}
	return n
}

func (s *Server) watchCount() int64 {
	s.replica.watchMu.Lock()
	defer s.replica.watchMu.Unlock()
	return int64(s.replica.watches.Size())
}

// leaderUptime returns for how many ms this server has led, 0 if it doesn't.
func (s *Server) leaderUptime() int64 {
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	since := s.replica.progress.leadingSince
	if since == 0 {
		return 0
	}
	return s.now()/1e6 - since
}

// synced is told of each fdatasync of the log.
func (s *Server) synced(d time.Duration, _ int) {
	s.meters.fsync.Observe(d.Milliseconds())
	s.meters.flush.Observe(d.Milliseconds())
	if limit := s.opt.FsyncWarning; limit > 0 && d > limit {
		s.log.Warn("the log's disk is slow; writes wait for it", "fsync", d.Round(time.Millisecond), "fsync.warningthresholdms", limit.Milliseconds())
	}
}

// countSessionless counts a connection that said too little in its time.
func (s *Server) countSessionless(err error) {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		s.meters.sessionlessExpired.Inc()
	}
}

// A quotaGauge adds up one figure of all quotas below each top-level path.
type quotaGauge struct {
	name, znode string
	keys        []string // the first of them that is set counts
}

func quotaGauges() []quotaGauge {
	return []quotaGauge{
		{"quota_count_limit_per_namespace", "zookeeper_limits", []string{"countHardLimit", "count"}},
		{"quota_bytes_limit_per_namespace", "zookeeper_limits", []string{"byteHardLimit", "bytes"}},
		{"quota_count_usage_per_namespace", "zookeeper_stats", []string{"count"}},
		{"quota_bytes_usage_per_namespace", "zookeeper_stats", []string{"bytes"}},
	}
}

const (
	quotaRoot = "/zookeeper/quota"
	// quotasMax bounds the znodes below quotaRoot that one reading looks at.
	quotasMax = 10_000
)

// quotas reads one figure. Each znode is read under a lock of its own.
func (s *Server) quotas(g quotaGauge) map[string]metrics.Value {
	sums := map[string]int64{}
	open := []string{quotaRoot}
	for seen := 0; len(open) > 0 && seen < quotasMax; seen++ {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		for _, name := range s.childNames(path) {
			if name == g.znode {
				if n, ok := g.read(s.znodeData(path + "/" + name)); ok {
					sums[namespace(strings.TrimPrefix(path, quotaRoot))] += n
				}
			} else if len(open) < quotasMax {
				open = append(open, path+"/"+name)
			}
		}
	}
	values := make(map[string]metrics.Value, len(sums))
	for name, n := range sums {
		values[name] = metrics.Int(n)
	}
	return values
}

// read finds the figure in "count=5,bytes=-1=;byteHardLimit=100"; -1 is none.
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

// asSuper is who the server is when it reads its own tree.
func asSuper() []jute.ID { return []jute.ID{{Scheme: "super"}} }

func (s *Server) childNames(path string) []string {
	scan := tree.Scan{Op: jute.OpGetChildren, Path: path, IDs: asSuper()}
	for {
		s.replica.mu.RLock()
		done, code := s.replica.tree.Step(&scan)
		s.replica.mu.RUnlock()
		switch {
		case code != jute.OK:
			return nil
		case done:
			return jute.NewDecoder(scan.Body).Strings()
		}
	}
}

func (s *Server) znodeData(path string) string {
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	reply, code := s.replica.tree.AppendGetData(nil, path, asSuper())
	if code != jute.OK {
		return ""
	}
	return string(jute.NewDecoder(reply).Buffer())
}
