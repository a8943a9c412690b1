package fourletter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/watch"
)

// The formats of the four-letter words. They are Apache's, byte for byte: scripts and monitoring systems parse them
// with regular expressions.

// server writes srvr or, with a list of connections, stat.
func (a *wordReply) server(st Status, conns []replica.Connection) {
	a.print("Zookeeper version: %s\n", st.Version)
	if st.Mode == ModeReadOnly {
		a.print("READ-ONLY mode; serving only read-only clients\n")
	}
	if st.Drained {
		a.print("DRAINED; taking no new clients\n")
	}
	if conns != nil {
		a.print("Clients:\n")
		a.connections(conns, true)
	}
	a.print("Latency min/avg/max: %d/%s/%d\n", st.Latency.Min, metrics.Float(st.Latency.Avg), st.Latency.Max)
	a.print("Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n", st.Received, st.Sent, st.Connections,
		st.Outstanding)
	a.print("Zxid: 0x%x\nMode: %s\nNode count: %d\n", uint64(st.Zxid), st.Mode, st.Nodes)
	if st.Mode == ModeLeader {
		a.print("Proposal sizes last/min/max: %d/%d/%d\n", st.Proposals.Last, st.Proposals.Min, st.Proposals.Max)
	}
}

// connections writes cons or, if brief, the list within stat.
func (a *wordReply) connections(list []replica.Connection, brief bool) {
	for _, c := range list {
		a.print(" /%s[%x](queued=%d,recved=%d,sent=%d", c.Remote, c.Interest, c.Outstanding, c.Received, c.Sent)
		if !brief && c.Session != 0 {
			a.print(",sid=%s,lop=%s,est=%d,to=%d", replica.SessionText(c.Session), cmp.Or(c.LastOp, "null"),
				c.Established.UnixMilli(), c.Timeout)
			if c.LastCxid >= 0 {
				a.print(",lcxid=0x%x", c.LastCxid)
			}
			a.print(",lzxid=0x%x,lresp=%d,llat=%d", uint64(c.LastZxid), c.LastResponse, c.LastLatency)
			a.print(",minlat=%d,avglat=%d,maxlat=%d", c.Latency.Min, int64(c.Latency.Avg), c.Latency.Max)
		}
		a.print(")\n")
	}
	a.print("\n")
}

// configuration writes conf.
func (a *wordReply) configuration(c Configuration) {
	a.print("clientPort=%d\nsecureClientPort=%d\n", c.ClientPort, c.SecureClientPort)
	a.print("dataDir=%s\ndataDirSize=%d\ndataLogDir=%s\ndataLogSize=%d\n", c.DataDir, c.DataSize, c.LogDir, c.LogSize)
	a.print("tickTime=%d\nmaxClientCnxns=%d\n", c.Tick.Milliseconds(), c.MaxClientCnxns)
	a.print("minSessionTimeout=%d\nmaxSessionTimeout=%d\n", c.SessionTimeoutMin.Milliseconds(),
		c.SessionTimeoutMax.Milliseconds())
	a.print("clientPortListenBacklog=%d\nserverId=%d\n", c.Backlog, c.ServerID)
	if !c.Ensemble {
		return
	}
	peerType := 0
	if c.Observer {
		peerType = 1
	}
	a.print("initLimit=%d\nsyncLimit=%d\nelectionAlg=%d\n", c.Shown.InitLimit, c.Shown.SyncLimit, electionAlg)
	a.print("electionPort=%s\nquorumPort=%s\npeerType=%d\n", c.Shown.ElectionPorts, c.Shown.QuorumPorts, peerType)
	if c.Membership != "" {
		a.print("membership: \n%s", c.Membership)
	}
}

// electionAlg is the only election algorithm that Apache still has.
const electionAlg = 3

// sizes writes dirs.
func (a *wordReply) sizes(data, log int64) { a.print("datadir_size: %d\nlogdir_size: %d\n", data, log) }

// environment writes envi.
func (a *wordReply) environment(list []Variable) {
	a.print("Environment:\n")
	for _, v := range list {
		a.print("%s=%s\n", v.Name, v.Value)
	}
}

// digests writes hash.
func (a *wordReply) digests(list []replica.Digest) {
	for _, d := range list {
		a.print("%x: %d\n", uint64(d.Zxid), d.Value)
	}
}

// readOnly writes isro.
func (a *wordReply) readOnly(st Status) {
	if st.Mode == ModeReadOnly {
		a.print("ro")
		return
	}
	a.print("rw")
}

// monitor writes mntr.
func (a *wordReply) monitor(st Status, standing Standing, r *metrics.Registry) {
	a.print("zk_version\t%s\nzk_server_state\t%s\n", st.Version, st.Mode)
	if st.PeerState != "" {
		a.print("zk_peer_state\t%s\n", st.PeerState)
	}
	if st.Mode == ModeObserver {
		a.print("zk_observer_master_id\t%d\n", serverid.MyID(st.Leader))
	}
	EachMetric(st, r, func(name string, v metrics.Value) { a.print("zk_%s\t%s\n", name, v) })
	a.print("zk_zooid_lineage\t%016x\nzk_zooid_voters\t%s\nzk_zooid_named_voters\t%s\nzk_zooid_staged_voters\t%s\n",
		standing.Lineage, idList(standing.Voters), idList(standing.Named), idList(standing.Staged))
	a.print("zk_zooid_lost_entry\t%d\nzk_zooid_drained\t%s\nzk_zooid_unheard_voters\t%s\n", standing.Lost,
		idList(standing.Drained), idList(standing.Unheard))
	a.print("zk_zooid_rules_waiting\t%s\n", cmp.Or(strings.Join(st.RulesWaiting, "; "), "none"))
	a.print("%s", standing.KeptLines())
}

// KeptLines returns the lines of mntr that a server also keeps in a file, for tools on its machine: where servers take
// clients, without TLS and with it, and which belong to another history, by id.
func (s *Standing) KeptLines() string {
	foreign := map[int64]string{}
	for id, lineage := range s.Foreign {
		foreign[id] = fmt.Sprintf("%016x", lineage)
	}
	sameID := strings.Join(strings.Fields(strings.Join(s.SameID, "; ")), " ")
	return fmt.Sprintf("zk_zooid_clients\t%s\nzk_zooid_secure_clients\t%s\nzk_zooid_foreign_servers\t%s\n",
		byID(s.Clients), byID(s.SecureClients), byID(foreign)) +
		fmt.Sprintf("zk_zooid_same_id\t%s\n", cmp.Or(sameID, "none"))
}

// byID formats what is known of servers as "1=zk1:2181,2=zk2:2181", and none as "none".
func byID(of map[int64]string) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(of)) {
		list = append(list, fmt.Sprintf("%d=%s", id, of[id]))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",")
}

// idList formats server ids as "1,2,3", and none as "none".
func idList(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}

// EachMetric visits the metrics that mntr prints for a server.
func EachMetric(st Status, r *metrics.Registry, visit func(name string, v metrics.Value)) {
	follows := st.Mode == ModeFollower || st.Mode == ModeObserver || st.Mode == ModeReadOnly
	r.Each(func(name string, v metrics.Value) {
		if !follows || !onlyLeaders(name) {
			visit(name, v)
		}
	})
}

// onlyLeaders reports whether mntr prints a metric only on leaders: a monitoring system that finds synced_followers
// takes the server for a leader.
func onlyLeaders(name string) bool {
	switch name {
	case "learners", "synced_followers", "synced_non_voting_followers", "synced_observers", "pending_syncs",
		"leader_uptime",
		"last_proposal_size", "max_proposal_size", "min_proposal_size":
		return true
	}
	return false
}

// javaDate is Java's format of a date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// dump writes dump.
func (a *wordReply) dump() {
	st, r := a.of.Status(), a.of.Replica()
	now := time.Now()
	sessions, more := r.SessionExpiries(now, AnswerBytesMax)
	a.cut = a.cut || more
	a.print("SessionTracker dump:\n")
	kind := "Session"
	if st.BeginsLocal {
		local, more := r.LocalSessionExpiries(now, AnswerBytesMax)
		a.cut = a.cut || more
		a.sessionSets("Local Session", local)
		kind = "Global Session"
	}
	if st.Mode == ModeFollower || st.Mode == ModeObserver {
		a.learnerSessions(sessions)
	} else {
		a.sessionSets(kind, sessions)
	}
	ephemerals, more := r.Ephemerals(AnswerBytesMax - a.buf.Len())
	a.cut = a.cut || more
	a.ephemerals(ephemerals)
	conns := a.of.ConnectionExpiries()
	a.print("Connections dump:\n")
	a.expirySets("Connections",
		expiries(conns, func(e ConnectionExpiry) time.Time { return e.Expires }), func(i int) string {
			return "ip: /" + conns[i].Remote + " sessionId: " + replica.SessionText(conns[i].Session)
		})
}

func expiries[T any](list []T, at func(T) time.Time) []time.Time {
	times := make([]time.Time, len(list))
	for i, e := range list {
		times[i] = at(e)
	}
	return times
}

// expirySets writes entries grouped by their expiry time; times must be ascending.
func (a *wordReply) expirySets(what string, times []time.Time, line func(i int) string) {
	sets := slices.CompactFunc(slices.Clone(times), time.Time.Equal)
	a.print("%s Sets (%d)/(%d):\n", what, len(sets), len(times))
	i := 0
	for _, at := range sets {
		end := i
		for end < len(times) && times[end].Equal(at) {
			end++
		}
		a.print("%d expire at %s:\n", end-i, at.Format(javaDate))
		for ; i < end; i++ {
			a.print("\t%s\n", line(i))
		}
	}
}

func (a *wordReply) sessionSets(kind string, list []replica.SessionExpiry) {
	a.expirySets(kind, expiries(list, func(e replica.SessionExpiry) time.Time { return e.Expires }), func(i int) string {
		return replica.SessionText(list[i].Session)
	})
}

// learnerSessions writes dump's list on a server that doesn't expire sessions itself.
func (a *wordReply) learnerSessions(list []replica.SessionExpiry) {
	a.print("Global Sessions(%d):\n", len(list))
	for _, e := range list {
		a.print("%s\t%dms\n", replica.SessionText(e.Session), e.Timeout)
	}
}

func (a *wordReply) ephemerals(list []replica.SessionPaths) {
	a.print("ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(list))
	for _, e := range list {
		a.print("%s:\n", replica.SessionText(e.Session))
		for _, p := range e.Paths {
			a.print("\t%s\n", p)
		}
	}
}

// watchesBySession writes wchc.
func (a *wordReply) watchesBySession(list []replica.SessionPaths, more bool) {
	for _, e := range list {
		a.print("%s\n", replica.SessionText(e.Session))
		for _, p := range e.Paths {
			a.print("\t%s\n", p)
		}
	}
	a.print("\n")
	a.cut = a.cut || more
}

// watchesByPath writes wchp.
func (a *wordReply) watchesByPath(list []replica.PathSessions, more bool) {
	for _, e := range list {
		a.print("%s\n", e.Path)
		for _, id := range e.Sessions {
			a.print("\t%s\n", replica.SessionText(id))
		}
	}
	a.print("\n")
	a.cut = a.cut || more
}

// watchSummary writes wchs.
func (a *wordReply) watchSummary(w watch.Summary) {
	a.print("%d connections watching %d paths\nTotal watches:%d\n", w.Watchers, w.Paths, w.Watches)
}
