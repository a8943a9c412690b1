package admin

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/serverid"
)

// listBytesMax bounds the lists in an answer, like the answer of a four-letter word.
const listBytesMax = fourletter.AnswerBytesMax

// cut notes in the answer that a list is incomplete.
func (c *call) cut(more bool) {
	if more {
		c.problem = fmt.Sprintf("The list is cut here: an answer has no more than %d MiB", listBytesMax>>20)
	}
}

// started reports whether there is a server to ask, and answers the call if not.
func (c *call) started() bool {
	if c.of == nil {
		c.problem = errNotServing
	}
	return c.of != nil
}

func (c *call) configuration() {
	conf := c.of.Configuration()
	c.set("client_port", conf.ClientPort)
	c.set("data_dir", conf.DataDir)
	c.set("data_log_dir", conf.LogDir)
	c.set("tick_time", conf.Tick.Milliseconds())
	c.set("max_client_cnxns", conf.MaxClientCnxns)
	c.set("min_session_timeout", conf.SessionTimeoutMin.Milliseconds())
	c.set("max_session_timeout", conf.SessionTimeoutMax.Milliseconds())
	c.set("server_id", conf.ServerID)
	c.set("client_port_listen_backlog", conf.Backlog)
}

func (c *call) connections(brief bool) {
	plain, secure := array{}, array{}
	overTLS := c.of.SecureConnections()
	for _, conn := range c.of.Connections() {
		o := object{
			{"remote_socket_address", conn.Remote}, {"interest_ops", conn.Interest}, {"outstanding_requests", conn.Outstanding},
			{"packets_received", conn.Received}, {"packets_sent", conn.Sent},
		}
		if !brief {
			o = append(o, session(&conn)...)
		}
		if overTLS[conn.Remote] {
			secure = append(secure, o)
		} else {
			plain = append(plain, o)
		}
	}
	c.set("connections", plain)
	c.set("secure_connections", secure)
}

// session returns the description of a connection, in its long form.
func session(conn *replica.Connection) object {
	established := conn.Established
	if established.IsZero() {
		established = time.UnixMilli(0)
	}
	var lastOp any // null if nothing has been answered
	if conn.LastOp != "" {
		lastOp = conn.LastOp
	}
	return object{
		{"session_id", conn.Session}, {"last_operation", lastOp}, {"established", established.UnixMilli()},
		{"session_timeout", conn.Timeout},
		{"last_cxid", conn.LastCxid}, {"last_zxid", conn.LastZxid}, {"last_response_time", conn.LastResponse},
		{"last_latency", conn.LastLatency},
		{"min_latency", conn.Latency.Min}, {"avg_latency", int64(conn.Latency.Avg)}, {"max_latency", conn.Latency.Max},
	}
}

func (c *call) dirs() {
	data, log := c.of.DataSizes()
	c.set("datadir_size", data)
	c.set("logdir_size", log)
}

func (c *call) dump() {
	r, now := c.of.Replica(), time.Now()
	sessions, more := r.SessionExpiries(now, listBytesMax)
	if c.of.Status().BeginsLocal {
		local, moreLocal := r.LocalSessionExpiries(now, listBytesMax)
		sessions, more = append(sessions, local...), more || moreLocal
	}
	slices.SortStableFunc(sessions, func(a, b replica.SessionExpiry) int { return a.Expires.Compare(b.Expires) })
	var expiries object
	for _, s := range sessions {
		at := strconv.FormatInt(s.Expires.UnixMilli(), 10)
		if n := len(expiries); n > 0 && expiries[n-1].key == at {
			expiries[n-1].value = append(expiries[n-1].value.([]int64), s.Session)
			continue
		}
		expiries.set(at, []int64{s.Session})
	}
	ephemerals, moreEphemerals := r.Ephemerals(listBytesMax)
	c.set("expiry_time_to_session_ids", expiries)
	c.set("session_id_to_ephemeral_paths", bySession(ephemerals))
	c.cut(more || moreEphemerals)
}

// bySession returns an object with the paths of each session.
func bySession(list []replica.SessionPaths) object {
	o := make(object, 0, len(list))
	for _, s := range list {
		o.set(strconv.FormatInt(s.Session, 10), s.Paths)
	}
	return o
}

func (c *call) environment() {
	if c.started() {
		for _, v := range c.of.Environment() {
			c.set(v.Name, v.Value)
		}
	}
}

// digestVersion is the version of Zooid's digest, which isn't compatible with Apache's.
const digestVersion = 1

func (c *call) hash() {
	list := array{}
	for _, d := range c.of.Replica().Digests() {
		list = append(list, object{{"zxid", d.Zxid}, {"digest", d.Value}, {"digest_version", digestVersion}})
	}
	c.set("digests", list)
}

func (c *call) isReadOnly() { c.set("read_only", c.of.Status().Mode == fourletter.ModeReadOnly) }

func (c *call) lastSnapshot() {
	zxid, written, ok := c.of.LastSnapshot()
	if !ok {
		c.set("zxid", "ffffffffffffffff")
		c.set("timestamp", -1)
		return
	}
	c.set("zxid", strconv.FormatUint(uint64(zxid), 16))
	c.set("timestamp", written.Unix())
}

func (c *call) leader() {
	if !c.of.Configuration().Ensemble {
		c.problem = "server is not initialized"
		return
	}
	q := c.of.Quorum()
	c.set("is_leader", q.IsLeader)
	c.set("leader_id", serverid.MyID(q.Leader))
	c.set("leader_ip", c.hostOf(q.Leader))
}

// hostOf returns the address of a member, "" for an unknown member.
func (c *call) hostOf(id uint64) string {
	for _, m := range c.members() {
		if serverid.Raft(m.ID) == id && len(m.Addrs) > 0 {
			host := m.Addrs[0].Host
			if addrs, err := net.LookupHost(host); err == nil && net.ParseIP(host) == nil && len(addrs) > 0 {
				return addrs[0]
			}
			return host
		}
	}
	return ""
}

func (c *call) monitor() {
	if !c.started() {
		return
	}
	st := c.of.Status()
	c.set("version", st.Version)
	c.set("server_state", st.Mode)
	if st.PeerState != "" {
		c.set("peer_state", st.PeerState)
	}
	if st.Mode == fourletter.ModeObserver {
		c.set("observer_master_id", serverid.MyID(st.Leader))
	}
	fourletter.EachMetric(st, c.of.Metrics(), func(name string, v metrics.Value) { c.set(name, v) })
}

func (c *call) serverStats() {
	st := c.of.Status()
	data, log := c.of.DataSizes()
	responses := object{
		{"last_buffer_size", st.Responses.Last}, {"min_buffer_size", st.Responses.Min}, {"max_buffer_size", st.Responses.Max},
	}
	var uptime, plainRemote, plainLocal int64
	c.of.Metrics().Each(func(name string, v metrics.Value) {
		switch name {
		case "uptime":
			uptime = int64(v.Float64())
		case "non_mtls_remote_conn_count":
			plainRemote = int64(v.Float64())
		case "non_mtls_local_conn_count":
			plainLocal = int64(v.Float64())
		}
	})
	c.set("version", st.Version)
	c.set("read_only", st.Mode == fourletter.ModeReadOnly)
	c.set("server_stats", object{
		{"packets_sent", st.Sent}, {"packets_received", st.Received}, {"fsync_threshold_exceed_count", 0},
		{"client_response_stats", responses},
		{"data_dir_size", data}, {"log_dir_size", log}, {"provider_null", false}, {"last_processed_zxid", st.Zxid},
		{"outstanding_requests", st.Outstanding},
		{"server_state", st.Mode}, {"avg_latency", metrics.Float(st.Latency.Avg)}, {"max_latency", st.Latency.Max},
		{"min_latency", st.Latency.Min},
		{"num_alive_client_connections", st.Connections}, {"uptime", uptime}, {"auth_failed_count", st.AuthFailed},
		{"non_mtlsremote_conn_count", plainRemote}, {"non_mtlslocal_conn_count", plainLocal},
	})
	c.set("client_response", responses)
	if st.Mode == fourletter.ModeLeader {
		c.set("proposal_stats",
			object{
				{"last_buffer_size", st.Proposals.Last}, {"min_buffer_size", st.Proposals.Min},
				{"max_buffer_size", st.Proposals.Max},
			})
	}
	c.set("node_count", st.Nodes)
}

func (c *call) setTraceMask() {
	if !c.started() {
		return
	}
	const want = "setTraceMask requires long traceMask argument"
	if !c.query.Has("traceMask") {
		c.problem = want
		return
	}
	mask, err := strconv.ParseInt(c.query.Get("traceMask"), 10, 64)
	if err != nil {
		c.problem = fmt.Sprintf("%s, got %.100s", want, c.query.Get("traceMask"))
		return
	}
	c.of.SetTraceMask(mask)
	c.set("tracemask", mask)
}

func (c *call) traceMask() {
	if c.started() {
		c.set("tracemask", c.of.TraceMask())
	}
}

func (c *call) systemProperties() {
	names := make([]string, 0, len(c.admin.opt.Properties))
	for name := range c.admin.opt.Properties { // any order: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.set(name, c.admin.opt.Properties[name])
	}
}

func (c *call) watchSummary() {
	s := c.of.Replica().WatchSummary()
	c.set("num_connections", s.Watchers)
	c.set("num_paths", s.Paths)
	c.set("num_total_watches", s.Watches)
}

func (c *call) watches() {
	list, more := c.of.Replica().WatchesBySession(listBytesMax)
	c.set("session_id_to_watched_paths", bySession(list))
	c.cut(more)
}

func (c *call) watchesByPath() {
	list, more := c.of.Replica().WatchesByPath(listBytesMax)
	o := make(object, 0, len(list))
	for _, p := range list {
		o.set(p.Path, p.Sessions)
	}
	c.set("path_to_session_ids", o)
	c.cut(more)
}

// tooSoon rejects a command that may run only once in an interval.
func (c *call) tooSoon(interval time.Duration) {
	c.fail(http.StatusTooManyRequests,
		fmt.Sprintf("One runs already, or the last one was less than %v ago (admin.rateLimiterIntervalInMS)", interval))
}
