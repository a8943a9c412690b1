package quorum

import (
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// The server of a group of one can change its id, or become one of a larger group: no other
// server knows its id, and all that it ever wrote is committed.

// soleBytes bounds one read of the log.
const soleBytes = 16 << 20

// SoleLog returns the log entries after index applied, and raft's term, of a group whose
// only voter is id and, as far as the log shows, always was. ok is false for any other
// group, and for an empty log.
func SoleLog(dir *storage.Dir, id, applied uint64) (entries []Entry, term uint64, ok bool, err error) {
	log := dir.Log()
	last, err := log.LastIndex()
	if err != nil || last == 0 {
		return nil, 0, false, err
	}
	hard, conf, err := log.InitialState()
	if err != nil {
		return nil, 0, false, err
	}
	if len(conf.GetVoters()) > 0 && !soleVoter(conf, id) || len(conf.GetLearners()) > 0 {
		return nil, 0, false, nil
	}
	skips, err := dir.Skips()
	if err != nil {
		return nil, 0, false, err
	}
	for next := applied + 1; next <= last; {
		list, err := log.Entries(next, last+1, soleBytes)
		if err != nil {
			return nil, 0, false, fmt.Errorf("read the log from index %d on: %w", next, err)
		}
		for _, e := range list {
			entry := Entry{Term: e.GetTerm(), Index: e.GetIndex(), Data: e.GetData()}
			if e.GetType() != pb.EntryNormal {
				if e.GetIndex() > 1 || id != firstVoter(e) {
					return nil, 0, false, nil
				}
				entry.Data = nil
			}
			if slices.ContainsFunc(skips, func(s storage.Skip) bool {
				return s.Index == entry.Index && s.Term == entry.Term && s.Hash == storage.HashEntry(entry.Data)
			}) {
				entry.Data = nil // skipped: a sole server's decision needs no agreement
			}
			entries = append(entries, entry)
		}
		next += uint64(len(list))
	}
	return entries, hard.GetTerm(), true, nil
}

// firstVoter returns the id that the first entry of a log makes a voter.
func firstVoter(e *pb.Entry) uint64 {
	cc := &pb.ConfChange{}
	if err := proto.Unmarshal(e.GetData(), cc); err != nil || cc.GetType() != pb.ConfChangeAddNode {
		return 0
	}
	return cc.GetNodeId()
}

// Restart replaces the log in dir by a new one with these voters. The image holds the state after an entry that no log
// has, of a term that was never used. Each voter may start with the same image: it is as if all had applied a single
// entry. A crash leaves either the old log or the complete new one. The caller closes the image.
func Restart(dir *storage.Dir, image Image, voters ...uint64) error {
	meta := image.Describe()
	meta.ConfState = &pb.ConfState{Voters: voters}
	w, err := dir.CreateSnapshot(meta)
	if err != nil {
		return err
	}
	if _, err := writeChunks(w, image); err != nil {
		return errors.Join(err, w.Abort())
	}
	vote := uint64(0)
	if len(voters) == 1 {
		vote = voters[0]
	}
	return dir.Install(w, &pb.HardState{Term: &meta.Term, Vote: &vote, Commit: &meta.Index})
}
