package quorum

import (
	"errors"
	"testing"
)

// TestBegin decides for server 1 with an empty disk, by what the others answer.
// The dangerous one is a peer that has a log and never saw an election: it may
// have been away while the others acknowledged writes that this server lost.
func TestBegin(t *testing.T) {
	t.Parallel()
	type answer struct {
		reply   JoinReply
		cluster uint64
		err     error
	}
	silent := answer{err: errors.New("no answer")}
	empty := answer{reply: JoinReply{New: true}}
	begun := answer{reply: JoinReply{New: true, Begun: true}, cluster: 7}
	with := answer{reply: JoinReply{New: true}, cluster: 7} // began when this server was known to be empty
	old := answer{cluster: 7}
	heard := answer{reply: JoinReply{Hearsay: true}}
	duplicate := answer{reply: JoinReply{DuplicateID: true}, cluster: 7}
	leads := answer{reply: JoinReply{Go: true, Index: 9}, cluster: 7}
	for _, c := range []struct {
		name    string
		second  answer
		third   answer
		joins   uint64 // cluster
		decided bool
		then    *answer // of the second, in the round after
	}{
		{"alone", silent, silent, 0, false, nil},
		{"one other is empty", empty, silent, 0, true, nil},
		{"all are empty", empty, empty, 0, true, nil},
		{"one began together with this one", with, silent, 0, true, nil},
		{"one began by itself and one is down", begun, silent, 0, false, nil},
		{"one began by itself and one is empty", begun, empty, 0, true, nil},
		{"two began by themselves", begun, begun, 0, true, nil},
		{"one belongs to an ensemble", old, silent, 0, false, nil},
		{"one belongs to an ensemble and one is empty", old, empty, 0, false, nil},
		{"one has heard of an ensemble and one is empty", heard, empty, 0, false, nil},
		{"the leader lets it in", old, leads, 7, true, nil},
		{"a duplicate id runs and one is empty", duplicate, empty, 0, false, nil},
		{"one belonged to an ensemble and is down, one is empty", old, empty, 0, false, &silent},
		{"one knew of a duplicate id and is down, one is empty", duplicate, empty, 0, false, &silent},
		{"one belonged to an ensemble and lost its disk", old, silent, 0, true, &empty},
		{"one had heard of an ensemble and is down, one is empty", heard, empty, 0, true, &silent},
	} {
		members := []Member{{ID: 1}, {ID: 2}, {ID: 3}}
		belong := map[uint64]bool{}
		round := func() (Beginning, []string, bool) {
			return Begin(1, members, belong, func(m Member) (JoinReply, uint64, error) {
				a := []answer{c.second, c.third}[m.ID-2]
				return a.reply, a.cluster, a.err
			})
		}
		b, waiting, ok := round()
		if c.then != nil {
			if ok {
				t.Errorf("%s: it began in the first round", c.name)
			}
			c.second = *c.then
			b, waiting, ok = round()
		}
		if ok != c.decided || b.Cluster != c.joins {
			t.Errorf("%s: decided %v to join cluster %d, want %v and %d", c.name, ok, b.Cluster, c.decided, c.joins)
		}
		if !ok && len(waiting) == 0 {
			t.Errorf("%s: it waits and doesn't say for what", c.name)
		}
	}
}
