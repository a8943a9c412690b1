//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/apache/switchover"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/zk"
)

// idList returns a function that parses the ids of a flag.
func idList(ids *[]int64) func(text string) error {
	return func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			id, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
			if err != nil || slices.Contains(*ids, id) {
				return fmt.Errorf("%q: want the ids of servers, each once", text)
			}
			*ids = append(*ids, id)
		}
		return nil
	}
}

// The times of mark.
const (
	markPatience = 5 * time.Second // for the transaction to arrive
	markTime     = time.Second     // for the slower servers to log it
)

// mark has the ensemble make a transaction, and returns a zxid of the copy that is no earlier. Each server that takes
// part soon has that zxid in its log, behind its last snapshot; this later shows that the server's tail is from its own
// log. If the transaction can't be made, servers that have long logged nothing can't be proved to have stopped.
func (r *switchRun) mark(ctx context.Context, copied *follow.Follower) int64 {
	r.makeTransaction(ctx, copied)
	at := copied.Status().Zxid
	select {
	case <-ctx.Done():
	case <-time.After(markTime):
	}
	return at
}

func (r *switchRun) makeTransaction(ctx context.Context, copied *follow.Follower) {
	ctx, cancel := context.WithTimeout(ctx, markPatience)
	defer cancel()
	before := copied.Status().Zxid
	if err := r.session(ctx, copied); err != nil {
		r.says.say(fmt.Sprintf("can't open a session, which would leave an entry in every log: %v", err))
		return
	}
	for s := copied.Status(); ctx.Err() == nil && (s.Zxid <= before || s.Behind > 0); s = copied.Status() {
		select {
		case <-ctx.Done():
		case <-time.After(awaitPoll):
		}
	}
}

// session opens a session and closes it.
func (r *switchRun) session(ctx context.Context, copied *follow.Follower) error {
	servers := r.words[0]
	if st, err := os.Stat(servers); err == nil && !st.IsDir() {
		e, addresses := copied.Ensemble(), []string{}
		for i := range e.Members {
			if a := e.Members[i].Client; a != "" {
				addresses = append(addresses, a)
			}
		}
		if servers = strings.Join(addresses, ","); servers == "" {
			return errors.New("the servers' lines have no client ports")
		}
	}
	o := zk.Options{SessionTimeout: 10 * time.Second}
	r.access.Put(&o)
	c, err := zk.Open(ctx, servers, o)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// allPorts returns the addresses of all servers of an ensemble.
func allPorts(e *follow.Ensemble) (all []string) {
	for i := range e.Members {
		all = append(all, ports(&e.Members[i])...)
	}
	return all
}

// takeOver stops the ensemble and makes the data directory from its final state. No server starts on the directory yet.
func (r *switchRun) takeOver(ctx context.Context, copied *follow.Follower, end func() error, stop *stopPlan,
	o *apache.ImportOptions) (*apache.Made, error) {
	e := &stop.Ensemble
	// The tails begin at the marked transaction, which shows that they are of the right log, or earlier if the copy was
	// cut short.
	defer r.dropTails()
	all, err := r.endings(ctx, e, max(min(stop.At, copied.Status().Zxid)-1, 0), r.enough(ctx, stop))
	if err != nil {
		return nil, err
	}
	if err := r.sessionEnded(ctx, copied); err != nil {
		return nil, err
	}
	p, err := r.proved(e, all, stop.At, stop.Before, proof.Probe(ctx, allPorts(e)))
	if err != nil {
		return nil, err
	}
	tails := p.tails
	r.ended = p.servers
	for _, text := range p.says {
		r.says.say(text)
	}
	if leader := copied.Status().Leader; leader != "" {
		return nil, fmt.Errorf("a leader at %s sends transactions again", leader)
	}
	if err := end(); err != nil {
		return nil, err
	}
	if now := copied.Ensemble(); now.Version != e.Version && len(now.Members) > 0 {
		return nil, fmt.Errorf("a reconfig changed the ensemble's servers in the meantime, from version %x to %x", e.Version,
			now.Version)
	}
	tail, err := switchover.Proved(e, tails, r.majority)
	if err != nil {
		return nil, err
	}
	added, err := copied.Extend(tail)
	if err != nil {
		return nil, fmt.Errorf("apply the ends of the Apache servers' logs: %w", err)
	}
	made, err := r.make(copied, o)
	if err != nil {
		return nil, fmt.Errorf("import the copy: %w", err)
	}
	r.says.say(fmt.Sprintf("%d servers have stopped at zxid %#x; %d transactions came from their logs. %s has %d znodes and %d sessions with Apache's digest %#x",
		len(tails), uint64(tail.Last), added, o.Dir, made.Znodes, made.Sessions, made.Digest))
	return made, nil
}

// make makes the data directory, marked so that no server starts on it.
func (r *switchRun) make(copied *follow.Follower, o *apache.ImportOptions) (made *apache.Made, err error) {
	if err := r.journal.Begin(r.try, stepMake, nil); err != nil {
		return nil, err
	}
	if err := newMark(r.try, o).Put(o.Dir); err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent)) // not before: a copy that is only followed may wait long
	err = copied.View(func(s *files.State, epoch int64) (err error) {
		made, err = o.Make(s, epoch)
		return err
	})
	if err == nil {
		err = made.Write()
	}
	if err == nil {
		err = r.foundsAlone()
	}
	if err == nil {
		err = newensemble.HandOver(o.Dir, o.LogDir)
	}
	if err == nil {
		err = r.journal.End(r.try, stepMake)
	}
	return made, err
}

// sessionPatience is how long the copy's session with the leader may last after the servers have stopped: if the
// leader's machine has died, only silence shows it.
const sessionPatience = follow.SilenceDefault + 5*time.Second

// sessionEnded waits until no leader talks to the copy. As long as one does, it hasn't stopped.
func (r *switchRun) sessionEnded(ctx context.Context, copied *follow.Follower) error {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	for {
		s := copied.Status()
		if s.Leader == "" {
			return nil
		}
		r.says.show("waiting for the end of the connection to the leader at " + s.Leader)
		select {
		case <-ctx.Done():
			return fmt.Errorf("the leader at %s was reported stopped, but still sends transactions to the copy (which is at zxid %#x). Stop all servers and make sure that nothing restarts them",
				s.Leader, uint64(copied.Status().Zxid))
		case <-time.After(awaitPoll):
		}
	}
}

// enough returns a function that reports whether the endings prove that a majority has ended, and none of the other
// servers answers from here: with -majority these count as dead. It returns nil if all servers must end.
func (r *switchRun) enough(ctx context.Context, stop *stopPlan) func(map[int64]ending) bool {
	if !r.majority {
		return nil
	}
	e := &stop.Ensemble
	return func(all map[int64]ending) bool {
		now := proof.Probe(ctx, allPorts(e))
		for i := range e.Members {
			if _, ended := all[e.Members[i].ID]; !ended && slices.ContainsFunc(ports(&e.Members[i]),
				func(address string) bool { return now[address] == proof.Open }) {
				return false
			}
		}
		_, err := r.proved(e, all, stop.At, stop.Before, now)
		return err == nil
	}
}

// A stopProof holds what is known about the servers that have stopped.
type stopProof struct {
	tails   map[int64]*files.Tail
	servers []stoppedServer
	says    []string // for the operator
}

// proved returns the servers that have stopped, by a complete proof or by the operator's confirmation (-stopped). at is
// the zxid that mark has returned.
func (r *switchRun) proved(e *follow.Ensemble, all map[int64]ending, at int64,
	before, after map[string]proof.Port) (p stopProof, err error) {
	p.tails = map[int64]*files.Tail{}
	var runs, lacks error
	for i := range e.Members {
		m := &e.Members[i]
		ended, ok := all[m.ID]
		if !ok {
			continue
		}
		if said := ended.said; said != nil && said.ID != nil && *said.ID != m.ID {
			return p, fmt.Errorf("the tail of server %d is from the directory of server %d, by its myid: give zooid migrate tail the dataDir of the server that it is to report on ($ZK_ID)",
				m.ID, *said.ID)
		}
		joined, err := ended.tail.Has(at)
		if err != nil {
			return p, fmt.Errorf("read the tail of server %d: %w", m.ID, err)
		}
		s := proof.Server{
			ID: m.ID, Election: m.Election, Others: otherPorts(m), Before: before, After: after, Said: ended.said,
			Last: ended.tail.Last, Joined: joined, Copied: at,
		}
		v := s.Judge(r.try)
		thisTry := ended.said != nil && ended.said.Try == r.try
		switch {
		case len(v.Runs) > 0:
			runs = errors.Join(runs, fmt.Errorf("server %d was reported stopped, but %v", m.ID, &v))
		case v.Stopped():
			p.add(m, before, ended.tail, fmt.Sprintf("server %d has stopped: nobody has its files open, its ports %v are closed, its log goes on from the copy to zxid %#x",
				m.ID, ports(m), uint64(ended.tail.Last)))
		case thisTry && slices.Contains(r.word, m.ID):
			p.add(m, before, ended.tail, fmt.Sprintf("server %d has stopped by the operator's word (-stopped); %v", m.ID, &v))
		default:
			lacks = errors.Join(lacks, fmt.Errorf("server %d isn't known to have stopped: %v", m.ID, &v))
		}
	}
	if runs != nil {
		return p, runs
	}
	if _, err := switchover.Proved(e, p.tails, r.majority); err != nil {
		if lacks == nil {
			return p, err
		}
		return p, fmt.Errorf("%w\n%w\nIf you know that nothing runs or can start there, confirm it: -stopped with the ids",
			lacks, err)
	}
	if lacks != nil {
		p.says = append(p.says, lacks.Error())
	}
	return p, nil
}

func (p *stopProof) add(m *learner.Member, before map[string]proof.Port, tail *files.Tail, says string) {
	p.tails[m.ID] = tail
	p.servers = append(p.servers, newStopped(m, before, tail.Last))
	p.says = append(p.says, says)
}
