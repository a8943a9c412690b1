package server

import (
	"cmp"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/serverid"
)

// Status returns the server's current report about itself. It blocks no request.
func (s *Server) Status() fourletter.Status {
	v := s.replica.View()
	q := s.peer.Status()
	mode, peerState := modeOf(s.opt.ID, s.opt.Members, q.Voters, q.Observers, v.Leads)
	if v.ReadOnly {
		v.Serving, mode, peerState = true, fourletter.ModeReadOnly, ""
	}
	return fourletter.Status{
		View: v, Version: s.opt.Version, Mode: mode, PeerState: peerState,
		Connections: s.connections.count(), Drained: s.Draining(),
	}
}

// Standing returns what this server knows about its ensemble.
func (s *Server) Standing() fourletter.Standing {
	named, _ := s.replica.Members()
	q := s.peer.Status()
	plain, secure := s.ensembleAddresses()
	return fourletter.Standing{
		Lineage: s.lineage, Voters: serverid.MyIDs(q.Voters), Named: participants(s.opt.Membership, named),
		Staged: participants(s.opt.Membership, s.replica.StagedMembers()), Lost: q.Lost,
		Drained: serverid.MyIDs(q.Drained), Unheard: serverid.MyIDs(q.Unheard), Clients: plain, SecureClients: secure,
		Foreign: foreign(s.peer), SameID: s.peer.SameID(),
	}
}

// foreign returns the members that say they belong to another history than this server, by myid, with that history.
func foreign(p *peer.Peer) map[int64]uint64 {
	all := map[int64]uint64{}
	for id, lineage := range p.Foreign() {
		all[serverid.MyID(id)] = lineage
	}
	return all
}

// participants returns the servers that a membership text names as voters, ascending.
func participants(of Membership, text string) (ids []int64) {
	if text == "" || of.Parse == nil {
		return nil
	}
	members, err := of.Parse(text)
	if err != nil {
		return nil // the replica, which follows the membership, has logged the error
	}
	for _, m := range members {
		if !m.Observer {
			ids = append(ids, serverid.MyID(m.ID))
		}
	}
	slices.Sort(ids)
	return ids
}

// modeOf returns a server's role in its ensemble, in two of Apache's notations: by the membership in force, or by the
// configured one if the membership in force doesn't name the server yet. A follower still counts as one while there is
// no leader, because it keeps its clients.
func modeOf(self uint64, members []Member, voters, observers []uint64, leads bool) (mode, peerState string) {
	if len(members) == 0 && len(voters)+len(observers) <= 1 {
		return fourletter.ModeStandalone, ""
	}
	observes := slices.Contains(observers, self)
	for _, m := range members {
		observes = observes || m.ID == self && m.Observer && !slices.Contains(voters, self)
	}
	if observes {
		return fourletter.ModeObserver, "observing - broadcast"
	}
	if leads {
		return fourletter.ModeLeader, "leading - broadcast"
	}
	return fourletter.ModeFollower, "following - broadcast"
}

// Connections returns all connections, oldest first, and at the end those without a connect request
// yet. Their addresses are in Java's form: "127.0.0.1:4711", "[0:0:0:0:0:0:0:1]:4711".
func (s *Server) Connections() []replica.Connection {
	waiting := map[string]bool{}
	for _, nc := range s.connections.list() {
		waiting[nc.RemoteAddr().String()] = true
	}
	list := s.replica.Connections()
	for i := range list {
		delete(waiting, list[i].Remote)
		list[i].Remote = javaSocket(list[i].Remote)
	}
	n := len(list)
	for remote := range waiting {
		list = append(list, replica.Connection{Remote: javaSocket(remote), Interest: replica.InterestRead})
	}
	slices.SortFunc(list[n:], func(a, b replica.Connection) int { return strings.Compare(a.Remote, b.Remote) })
	return list
}

// ConnectionExpiries returns the connections ordered by the time at which they will be closed,
// rounded up to multiples of SessionlessTimeout.
func (s *Server) ConnectionExpiries() []fourletter.ConnectionExpiry {
	now, wall := s.now()/1e6, time.Now()
	step := max(s.opt.SessionlessTimeout.Milliseconds(), 1)
	var list []fourletter.ConnectionExpiry
	for _, c := range s.Connections() {
		ends := now + step
		if c.Session != 0 {
			ends = c.LastHeard + int64(c.Timeout)
		}
		list = append(list,
			fourletter.ConnectionExpiry{
				Connection: c, Expires: wall.Add(time.Duration((ends/step+1)*step-now) * time.Millisecond),
			})
	}
	slices.SortStableFunc(list, func(a, b fourletter.ConnectionExpiry) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Session, b.Session))
	})
	return list
}

// javaSocket formats "host:port" as Java does.
func javaSocket(remote string) string {
	host, port, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	if host = javaAddress(host); strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// Configuration returns the settings in force.
func (s *Server) Configuration() fourletter.Configuration {
	c := fourletter.Configuration{
		SecureClientPort: -1, DataDir: s.opt.DataDir, LogDir: s.opt.LogDir, Tick: s.opt.Tick,
		MaxClientCnxns: s.limitPerHost(), SessionTimeoutMin: s.opt.SessionTimeoutMin,
		SessionTimeoutMax: s.opt.SessionTimeoutMax, Backlog: s.opt.Backlog,
	}
	c.Backlog = cmp.Or(c.Backlog, -1)
	if len(s.opt.Members) > 0 {
		st := s.Status()
		c.ServerID, c.Ensemble, c.Shown, c.Observer = s.ID(), true, s.opt.Shown, st.Mode == fourletter.ModeObserver
		if st.Mode != fourletter.ModeReadOnly {
			c.Membership = st.Members
		}
	}
	for _, a := range s.Addrs() {
		if tcp, ok := a.(*net.TCPAddr); ok {
			c.ClientPort = tcp.Port
			break
		}
	}
	c.DataSize, c.LogSize = s.DataSizes()
	return c
}

// DataSizes returns the total size in bytes of the files in the data directory and in the log
// directory, which may be the same.
func (s *Server) DataSizes() (data, log int64) {
	data = folderSize(s.opt.DataDir)
	if s.opt.LogDir == s.opt.DataDir {
		return data, data
	}
	return data, folderSize(s.opt.LogDir)
}

// folderSize returns the total size of the files below dir. Files that disappear meanwhile don't count.
func folderSize(dir string) int64 {
	var sum int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
