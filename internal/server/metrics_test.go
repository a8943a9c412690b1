package server

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

func lines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// ownMetrics are those that ZooKeeper has not.
var ownMetrics = []string{
	"acl_rules_waiting", "clock_correction_ms", "clock_ms",
	"disk_free_bytes", "disk_free_files", "disk_level", "draining",
	"feature_level", "fsync_in_flight_ms", "last_turn_ms", "log_awaits_room",
	"logins_throttled", "notifications_refused", "snapshot_in_flight_ms",
	"memory_identities",
	"memory_input",
	"memory_limit",
	"memory_output",
	"memory_peers", "memory_records",
	"memory_refused",
	"memory_sessions",
	"memory_tree",
	"memory_unanswered",
	"memory_used",
	"memory_watches",
	"time_set_back_count",
	"acl_refused", "multi_refused", "reply_refused",
	"zooid_overload_total", "zooid_overloaded", "zooid_memory_closed_total", "zooid_memory_awaited_total",
	"zooid_replica_held_seconds",
	"zooid_build_info",
	"zooid_disk_log_appended_bytes", "zooid_identities_expired", "zooid_identities_withdrawn", "zooid_raft_active_voters",
	"zooid_raft_applied_index", "zooid_raft_has_leader",
	"zooid_raft_is_leader", "zooid_raft_peer_lag_entries", "zooid_raft_leader_changes_total", "zooid_sessions_ended_total",
	"zooid_limits_exceeded_total", "zooid_policy_denied_total", "zooid_watch_delivery_seconds", "zooid_raft_term",
	"zooid_raft_voters", "zooid_request_stage_seconds", "zooid_serving",
	"zooid_snapshot_age_seconds", "zooid_snapshot_bytes",
}

// TestAllNamesAreThere compares with the names that ZooKeeper registers
// (metric_names.txt) and with the lines that the mntr word of a ZooKeeper 3.9.5
// without znodes prints (apache_mntr.txt).
func TestAllNamesAreThere(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	got := st.s.Metrics().Names()
	slices.Sort(got)
	want := slices.Concat(lines(t, "testdata/metric_names.txt"), ownMetrics)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not registered", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d metrics are registered, ZooKeeper and ownMetrics have %d", len(got), len(want))
	}
	st.s.Metrics().Samples(func(s *metrics.Sample) {
		if len(strings.Fields(s.Help)) < 2 || !strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: %q helps nobody; internal/metrics/help.go has the texts", s.Name, s.Help)
		}
	})
	keys := map[string]bool{}
	for line := range strings.Lines(st.word("mntr")) {
		key, _, _ := strings.Cut(line, "\t")
		if keys[key] {
			t.Errorf("mntr has %s twice", key)
		}
		keys[key] = true
	}
	for _, key := range lines(t, "testdata/apache_mntr.txt") {
		if !keys[key] {
			t.Errorf("mntr has no %s", key)
		}
	}
}

// numbers returns mntr as a map.
func (st *wordStage) numbers() map[string]string {
	st.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(st.word("mntr")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all[strings.TrimPrefix(key, "zk_")] = value
	}
	return all
}

// metric returns one metric's value.
func (s *Server) metric(name string) (value int64) {
	s.Metrics().Each(func(n string, v metrics.Value) {
		if n == name {
			value, _ = strconv.ParseInt(v.String(), 10, 64)
		}
	})
	return value
}

func (st *wordStage) must(lines ...string) {
	st.t.Helper()
	for _, line := range lines {
		if got := st.do(line); got != "zookeeper: ok\n" && got != "connected\n" {
			st.t.Fatalf("%s: %s", line, got)
		}
	}
}

// TestWritesAreCountedOnTheirWay follows a few through log and apply.
func TestWritesAreCountedOnTheirWay(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	st.must("A get /") // once it is answered, all before it is counted
	st.s.replica.ResetStats()
	st.must("A create /a", "A set /a 1", "A set /a 2", "A get /a")
	n := st.numbers()
	for key, want := range map[string]string{
		"proposal_count": "3", "commit_count": "3", "sum_sync_processor_batch_size": "3", "cnt_updatelatency": "3",
		"cnt_readlatency": "1", "cnt_propagation_latency": n["cnt_sync_processor_batch_size"],
		"leader_uptime": n["leader_uptime"],
		"cnt_fsynctime": n["cnt_sync_processor_queue_flush_time_ms"], "quorum_size": "1", "learners": "0",
		"unrecoverable_error_count": "0",
	} {
		if n[key] != want {
			t.Errorf("%s is %s, want %s", key, n[key], want)
		}
	}
	if n["cnt_fsynctime"] == "0" || n["last_proposal_size"] == "-1" || n["open_file_descriptor_count"] == "0" {
		t.Errorf("not counted: fsynctime %s, proposal size %s, open files %s", n["cnt_fsynctime"], n["last_proposal_size"], n["open_file_descriptor_count"])
	}
	// A batch's bytes are counted when it is over, which may be after its reply.
	st.await("the bytes of three requests are counted",
		func() bool { return st.s.meters.BytesReceived.Value() > 3*jute.RequestHeaderSize })
}

// TestStartIsMeasured opens a data directory with requests in its log.
func TestStartIsMeasured(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	st.must("A create /a", "A set /a 1")
	st.clients["A"].conn.Close()
	if err := st.s.Close(); err != nil {
		t.Fatal(err)
	}
	opt := st.s.opt
	opt.Listen = []string{"127.0.0.1:0"}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st.s, st.clients, st.names = s, map[string]*wordClient{}, nil
	st.await("the log is replayed", func() bool { return s.Status().Zxid>>32 == 3 })
	n := st.numbers()
	for key, want := range map[string]string{
		"cnt_startup_txns_loaded": "1", "cnt_startup_txns_load_time": "1", "cnt_startup_snap_load_time": "1",
		"cnt_dbinittime":          "1",
		"sum_startup_txns_loaded": "5", // settings, secret, session, create, set
		"proposal_count":          "0", "cnt_propagation_latency": "0",
	} {
		if n[key] != want {
			t.Errorf("%s is %s, want %s", key, n[key], want)
		}
	}
}

// TestPatienceWithTheSilentIsCounted lets a connection without a session and a
// session without a client run out of time.
func TestPatienceWithTheSilentIsCounted(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{SessionlessTimeout: 100 * time.Millisecond})
	conn := st.dial()
	defer conn.Close()
	st.await("the connection is counted", func() bool { return st.s.meters.SessionlessExpired.Value() == 1 })
	// On a server of its own, or a session that takes longer to begin counts as the former.
	st = newWordStage(t, Options{Serving: Serving{Tick: 50 * time.Millisecond}})
	st.connect("A", 100)
	st.clients["A"].conn.Close()
	st.await("the session is counted", func() bool { return st.s.metric("stale_sessions_expired") == 1 })
}

// TestQuotaFigures reads limits as clients write them.
func TestQuotaFigures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data string
		want [2]int64 // limits of count and bytes, -1 for none
	}{
		{"count=5,bytes=100=;byteHardLimit=200;countHardLimit=7", [2]int64{7, 200}},
		{"count=5,bytes=-1", [2]int64{5, -1}},
		{"count=-1,bytes=-1=;byteHardLimit=3", [2]int64{-1, 3}},
		{"", [2]int64{-1, -1}}, {"count=x,=,;bytes", [2]int64{-1, -1}},
	} {
		gauges := quotaGauges()
		for i, want := range c.want {
			got, ok := gauges[i].read(c.data)
			if !ok {
				got = -1
			}
			if got != want {
				t.Errorf("%s of %q: %d, want %d", gauges[i].name, c.data, got, want)
			}
		}
	}
}

// TestQuotaMetrics: what hard limits refuse is counted by namespace, in a multi too, and limits and usage are shown.
// What stays within the limits, and what fails for another reason, isn't counted.
func TestQuotaMetrics(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{Settings: tree.Settings{EnforceQuota: true}})
	st.connect("A", 30000)
	st.must("A create /app", "A create /other", "A create /zookeeper/quota/app",
		"A create /zookeeper/quota/app/zookeeper_limits count=9,bytes=9=;byteHardLimit=5;countHardLimit=3", "A create /zookeeper/quota/app/zookeeper_stats",
		"A create /app/b 12345", "A create /app/c", "A create /other/x 123456789")
	st.fails("A create /app/d", jute.ErrQuotaExceeded)
	st.fails("A set /app/c 1", jute.ErrQuotaExceeded)
	st.fails("A create /app/b", jute.ErrNodeExists)
	many := []jute.MultiOp{{Op: jute.OpCreate, Path: "/app/e", ACL: jute.WorldACL(jute.PermAll)}}
	if code, err := st.clients["A"].call(jute.OpMulti, jute.AppendMulti(nil, many)); err != nil || code != jute.OK {
		t.Fatalf("a multi: %v, %v", code, err)
	}
	n := st.numbers()
	for key, want := range map[string]string{
		"app_quota_exceeded_error_per_namespace": "3", "other_quota_exceeded_error_per_namespace": "",
		"app_quota_count_limit_per_namespace": "3", "app_quota_bytes_limit_per_namespace": "5",
		"app_quota_count_usage_per_namespace": "3", "app_quota_bytes_usage_per_namespace": "5",
	} {
		if n[key] != want {
			t.Errorf("%s is %q, want %q", key, n[key], want)
		}
	}
}

func (st *wordStage) fails(line string, code jute.Code) {
	st.t.Helper()
	if got := st.do(line); got != fmt.Sprintln(code) {
		st.t.Errorf("%s: %s, want %v", line, got, code)
	}
}

// TestQuotasOfLongNames: the figures of namespaces with long names are shown together.
func TestQuotasOfLongNames(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	for _, first := range []string{"a", "b"} {
		long := first + strings.Repeat("x", metrics.KeyBytesMax)
		st.must("A create /"+long, "A create /zookeeper/quota/"+long,
			"A create /zookeeper/quota/"+long+"/zookeeper_limits count=3")
	}
	for name, value := range st.numbers() {
		if len(name) > 2*metrics.KeyBytesMax || name == metrics.OtherKey+"_quota_count_limit_per_namespace" && value != "6" {
			t.Errorf("%s is %s", name, value)
		}
	}
	if st.numbers()[metrics.OtherKey+"_quota_count_limit_per_namespace"] == "" {
		t.Error("the quotas of long names aren't shown")
	}
}

// TestCertificateEnds: there is a number for what each port shows and for what it trusts, and one that says whether
// its stores can be read.
func TestCertificateEnds(t *testing.T) {
	t.Parallel()
	ends := func(shown, trusted time.Duration) func() (time.Time, time.Time) {
		return func() (time.Time, time.Time) {
			if trusted == 0 {
				return time.Now().Add(shown), time.Time{}
			}
			return time.Now().Add(shown), time.Now().Add(trusted)
		}
	}
	s := open(t,
		Options{
			Stores: []Stores{
				{Of: "client port", Ends: ends(time.Hour, 2*time.Hour), Unreadable: func() bool { return true }},
				{Of: "admin server", Ends: ends(-time.Hour, 0), Unreadable: func() bool { return false }},
			},
		})
	got, unreadable := map[string]float64{}, map[string]float64{}
	s.Metrics().Samples(func(m *metrics.Sample) {
		switch m.Name {
		case "zooid_certificate_ends_in_seconds":
			got[m.Value] = m.Number
		case "zooid_stores_unreadable":
			unreadable[m.Value] = m.Number
		}
	})
	if want := map[string]float64{"client port": 1, "admin server": 0}; !maps.Equal(unreadable, want) {
		t.Errorf("stores that can't be read: %v, want %v", unreadable, want)
	}
	for of, want := range map[string]float64{
		"client port": 3600, "issuers trusted by the client port": 7200, "admin server": -3600,
	} {
		if n, ok := got[of]; !ok || n > want || n < want-600 {
			t.Errorf("%s: %v, want %v", of, n, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d numbers: %v", len(got), got)
	}
}

// TestEnsembleNamesAreCounted: auth packets of the scheme ensemble are counted as Apache does.
func TestEnsembleNamesAreCounted(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Auth: auth.Options{Ensemble: true, EnsembleNames: []string{"prod"}}})
	for name, hangsUp := range map[string]bool{"prod": false, "": false, "test": true} {
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		if _, err := c.conn.Write(c.request(nil, jute.OpAuth, authPacket("ensemble", name))); err != nil {
			t.Fatal(err)
		}
		if hangsUp {
			if n, err := c.conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("a client of another ensemble is sent %d bytes", n)
			}
		} else if h, _ := c.reply(); h.Err != jute.OK {
			t.Errorf("%q: %v", name, h.Err)
		}
	}
	got := map[string]string{}
	s.Metrics().Each(func(name string, v metrics.Value) { got[name] = v.String() })
	for _, name := range []string{"ensemble_auth_success", "ensemble_auth_fail", "ensemble_auth_skip"} {
		if got[name] != "1" {
			t.Errorf("%s is %s, want 1", name, got[name])
		}
	}
}
