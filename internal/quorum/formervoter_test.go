package quorum

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestFormerVoter: a server that has lost its vote gives what is left of it to a candidate that has all that is
// committed, though its own log is longer; but not if a change of membership is among the rest, and no voter does.
func TestFormerVoter(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3)
	c.leader().stage(7, 0, c.pick(1)...)
	c.until("server 2 has no vote", func() bool { return !votes(c.nodes[2].loop.conf, 2) })
	former := c.nodes[2].loop
	committed := max(former.applied, former.hard.GetCommit())
	term, err := former.disk.Term(committed)
	if err != nil {
		t.Fatal(err)
	}
	// asks returns a request for a vote by a candidate whose log ends so, as raft gets it.
	asks := func(l *Loop, typ pb.MessageType, logTerm, index uint64) *pb.Message {
		m := &pb.Message{Type: &typ, From: new(uint64(1)), To: new(l.id), Term: new(term + 1),
			LogTerm: &logTerm, Index: &index}
		l.formerVoter(m)
		return m
	}
	long := func(m *pb.Message) bool { return m.GetLogTerm() == term+1 && m.GetIndex() > indexMax }
	log := func(entries ...*pb.Entry) {
		t.Helper()
		for i, e := range entries {
			e.Index, e.Term = new(committed+uint64(i)+1), new(term)
		}
		if err := former.disk.Append(nil, entries, true); err != nil {
			t.Fatal(err)
		}
	}
	write, change := pb.EntryNormal, pb.EntryConfChangeV2
	log(&pb.Entry{Type: &write, Data: []byte("one")}, &pb.Entry{Type: &write})
	for _, typ := range []pb.MessageType{pb.MsgPreVote, pb.MsgVote} {
		if !long(asks(former, typ, term, committed)) {
			t.Errorf("%s: a log with all that is committed isn't enough", typ)
		}
		if m := asks(former, typ, term, committed-1); m.GetIndex() != committed-1 || m.GetLogTerm() != term {
			t.Errorf("%s: a log without what is committed is enough", typ)
		}
		if long(asks(former, typ, term-1, committed+9)) {
			t.Errorf("%s: a log of an earlier term is enough", typ)
		}
		if !long(asks(former, typ, term+1, 1)) {
			t.Errorf("%s: a log of a later term isn't enough", typ)
		}
		if voter := c.nodes[1].loop; long(asks(voter, typ, term, committed)) {
			t.Errorf("%s: a voter gives its vote to any log", typ)
		}
	}
	if long(asks(former, pb.MsgApp, term, committed)) {
		t.Error("another message is changed")
	}
	former.tasks.writing = true
	if long(asks(former, pb.MsgVote, term, committed)) {
		t.Error("the log counts for nothing while it is being written")
	}
	former.tasks.writing = false
	log(&pb.Entry{Type: &write}, &pb.Entry{Type: &change})
	if long(asks(former, pb.MsgVote, term, committed)) {
		t.Error("the log counts for nothing though a change of membership is in it")
	}
	log(&pb.Entry{Type: &write, Data: make([]byte, unappliedBytesMax)}, &pb.Entry{Type: &write})
	if long(asks(former, pb.MsgVote, term, committed)) {
		t.Error("a log that isn't read whole counts for nothing")
	}
}
