package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/serverid"
)

// ownGauges registers the metrics that Apache doesn't have, which Prometheus shows and mntr doesn't.
func (s *Server) ownGauges(reg *metrics.Registry) {
	one := func(name, help string, read func() float64) {
		reg.Gauges(name, help, "", func() map[string]float64 { return map[string]float64{"": read()} })
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	reg.Gauges("zooid_build_info", "1; the label is the version, as srvr has it.", "version", func() map[string]float64 {
		version, _, _ := strings.Cut(s.opt.Version, ", built on")
		return map[string]float64{version: 1}
	})
	one("zooid_raft_term", "Term of the leader that this server knows, or knew last.",
		func() float64 { return float64(s.peer.Status().Term) })
	one("zooid_raft_applied_index", "Index of the last log entry that this server has applied.",
		func() float64 { return float64(s.peer.Status().Applied) })
	one("zooid_raft_is_leader", "1 on the leader, 0 elsewhere.", func() float64 { return flag(s.peer.Status().IsLeader) })
	one("zooid_raft_has_leader", "1 while this server knows of a leader.",
		func() float64 { return flag(s.peer.Status().Leader != 0) })
	one("zooid_serving", "1 while this server serves its clients.",
		func() float64 { return flag(s.replica.View().Serving) })
	one("zooid_overloaded", "1 while writes wait so long for the log that what keeps the service alive goes first.",
		func() float64 { return flag(s.replica.Overloaded()) })
	reg.Gauges("zooid_replica_held_seconds",
		"Longest time in the last minute or two for which others waited for the replica, by what it did.", "for",
		func() map[string]float64 {
			apply, reads := s.replica.LongestHolds()
			return map[string]float64{"apply": apply.Seconds(), "reads": reads.Seconds()}
		})
	reg.Gauges("zooid_raft_peer_lag_entries", "On the leader: log entries that it has applied and a peer has yet to store.",
		"peer", func() map[string]float64 { return peerLag(s.peer.Status()) })
	one("zooid_raft_active_voters", "On the leader: voters heard of within the last election timeout, itself included.",
		func() float64 { return activeVoters(s.peer.Status()) })
	one("zooid_raft_voters", "Servers whose votes count.", func() float64 { return float64(len(s.peer.Status().Voters)) })
	if s.auditor != nil {
		reg.Gauges("zooid_audit_lines", "Lines of the audit log since the start, by what became of them.",
			"became", s.auditor.counts)
	}
	if len(s.opt.Stores) > 0 {
		reg.Gauges("zooid_certificate_ends_in_seconds", "Time until the first certificate in use ends, by port and by the issuers that it trusts; negative once it has ended.",
			"of", func() map[string]float64 { return certificateEnds(s.opt.Stores) })
		reg.Gauges("zooid_stores_unreadable", "1 while a port's key and trust stores on disk can't be read and it uses those that it read before.",
			"of", func() map[string]float64 {
				of := map[string]float64{}
				for _, stores := range s.opt.Stores {
					of[stores.Of] = flag(stores.Unreadable())
				}
				return of
			})
	}
	one("zooid_disk_log_appended_bytes", "Bytes written to the log since the start.",
		func() float64 { return float64(s.dir.Log().Stats().AppendBytes) })
	snapshot := func(read func(fs.FileInfo) float64) func() map[string]float64 {
		return func() map[string]float64 {
			if newest := newestSnapshot(s.opt.DataDir); newest != nil {
				return map[string]float64{"": read(newest)}
			}
			return nil
		}
	}
	reg.Gauges("zooid_snapshot_age_seconds", "Time since the newest snapshot on this server's disk was written.", "",
		snapshot(func(newest fs.FileInfo) float64 { return time.Since(newest.ModTime()).Seconds() }))
	reg.Gauges("zooid_snapshot_bytes", "Size of the newest snapshot on this server's disk.", "",
		snapshot(func(newest fs.FileInfo) float64 { return float64(newest.Size()) }))
}

// newestSnapshot returns the newest snapshot in the data directory, or nil if there is none or it
// can't be read. File names are numbers of a fixed length, so the newest is the last one.
func newestSnapshot(dir string) fs.FileInfo {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, file := range slices.Backward(list) {
		if filepath.Ext(file.Name()) == ".snap" {
			info, err := file.Info()
			if err != nil {
				return nil // it was removed meanwhile
			}
			return info
		}
	}
	return nil
}

// certificateEnds returns the seconds until certificates expire: for each port, those of the first
// certificate that it presents, and of the first that it trusts.
func certificateEnds(of []Stores) map[string]float64 {
	left := map[string]float64{}
	for _, stores := range of {
		shown, trusted := stores.Ends()
		left[stores.Of] = time.Until(shown).Seconds()
		if !trusted.IsZero() {
			left["issuers trusted by the "+stores.Of] = time.Until(trusted).Seconds()
		}
	}
	return left
}

// peerLag returns how many entries each peer lags behind a leader.
func peerLag(st quorum.Status) map[string]float64 {
	lag := map[string]float64{}
	for _, p := range st.Followers {
		lag[strconv.FormatInt(serverid.MyID(p.ID), 10)] = float64(st.Applied - min(p.Match, st.Applied))
	}
	return lag
}

// activeVoters returns how many voters, including itself, a leader hears from; 0 on other servers.
func activeVoters(st quorum.Status) float64 {
	if !st.IsLeader {
		return 0
	}
	n := 1.0
	for _, p := range st.Followers {
		if p.Voter && p.Active {
			n++
		}
	}
	return n
}
