package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A server with an empty data directory may be one of a new ensemble, one that
// joins, or one whose disk was replaced. The last must not go on under its id as
// if nothing had happened: it may have voted, and acknowledged entries that it no
// longer has. So it asks its peers first (a connection of kind connJoin).
//
//	If most voters of its configuration are as empty as it is, or have just begun
//	with it, having seen no election, they begin a new ensemble together. One that
//	has begun without it may have done so long ago, and may never have heard of
//	what others acknowledged since: then all voters must say that there is nothing.
//
//	If a peer belongs to one, the server joins that. The leader first takes its
//	id out of raft's membership, if it is there, and then lets it start, telling
//	how far the log is. It is added again as a learner, and until that entry,
//	which lies beyond what the leader told, is applied here, it neither votes nor
//	campaigns: no promise it may have forgotten counts any more.
//
//	answer to hello of kind connJoin: state(1) cluster(8) index(8)
type joinState byte

const (
	joinEmpty joinState = iota // the peer has no log either, or nothing but its beginning
	joinWait                   // the peer has one; it doesn't lead, or must take the id out first
	joinGo                     // the peer leads, and the id is in no membership
	joinTwin                   // the peer leads, and a server with that id is running
)

// joinPause is the time between two rounds of asking.
const joinPause = 100 * time.Millisecond

// A Beginning is how a server with an empty data directory begins.
type Beginning struct {
	Cluster     uint64 // of the ensemble to join; 0 to begin a new one
	JoinedAfter uint64 // with Cluster: index beyond which it becomes a member
}

// Discover finds out how the server self with an empty data directory begins. It
// answers the peers' same question on l, which it leaves open, and blocks until
// the answer is clear or ctx ends. members is its configuration.
func Discover(ctx context.Context, self uint64, members []Member, l net.Listener, secure Secure, log *slog.Logger) (Beginning, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	t := newTransport(self, 0, log)
	t.secure = secure
	t.askers = map[uint64]bool{}
	for _, m := range members {
		t.askers[m.ID] = false
	}
	wg.Go(func() { t.answerEmpty(ctx, l) })
	defer interruptAccept(l)
	for {
		b, waiting, err := t.ask(ctx, members)
		if err == nil || ctx.Err() != nil {
			return b, errors.Join(err, ctx.Err())
		}
		if text := strings.Join(waiting, "; "); t.complaints.due(text, time.Now()) {
			log.Info("this server's data directory is empty: waiting for peers to tell whether there is an ensemble", "waiting", text)
		}
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return Beginning{}, ctx.Err()
		}
	}
}

// interruptAccept makes a blocked Accept return without closing the listener.
func interruptAccept(l net.Listener) {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now())
	}
}

// answerEmpty tells who asks that this server is empty too.
func (t *transport) answerEmpty(ctx context.Context, l net.Listener) {
	for ctx.Err() == nil {
		raw, err := l.Accept()
		if err != nil {
			break
		}
		go func() {
			defer raw.Close()
			c, plain, err := t.secure.accepted(ctx, raw)
			if err != nil {
				t.closed(raw, err)
				return
			}
			c.SetDeadline(time.Now().Add(dialTimeout))
			h, err := readHello(c)
			switch {
			case err != nil:
				t.closed(raw, bare(err))
			case plain:
				t.refused(raw, h, plainRefusal)
				writeAnswer(c, plainRefusal)
				linger(raw)
			case t.isSelf(h):
				writeAnswer(c, "")
			case h.from == t.id:
				t.refused(raw, h, t.refuse(h))
				writeAnswer(c, t.refuse(h))
			case h.kind == connJoin:
				t.noteAsker(h.from)
				writeAnswer(c, "")
				c.Write(joinAnswer(joinEmpty, 0, 0))
			case h.kind == connPing:
				writeAnswer(c, "")
			default:
				writeAnswer(c, "this server has an empty data directory and is finding out how to begin")
			}
		}()
	}
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Time{})
	}
}

// noteAsker remembers that a member knows this server to be empty.
func (t *transport) noteAsker(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, member := t.askers[id]; member {
		t.askers[id] = true
	}
}

// askedBy reports whether a peer knows this server to be empty.
func (t *transport) askedBy(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.askers[id]
}

func joinAnswer(s joinState, cluster, index uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{byte(s)}, cluster), index)
}

var errUnclear = errors.New("not enough peers have answered")

// ask makes one round.
func (t *transport) ask(ctx context.Context, members []Member) (b Beginning, waiting []string, err error) {
	b, waiting, ok := Begin(t.id, members, func(m Member) (JoinReply, uint64, error) {
		state, cluster, index, err := t.askOne(ctx, m)
		if state == joinTwin {
			err = fmt.Errorf("a server %d is running already: %s", t.id, sameID)
		}
		return JoinReply{New: state == joinEmpty, Begun: cluster != 0 && !t.askedBy(m.ID), Go: state == joinGo, Index: index}, cluster, err
	})
	if !ok {
		return b, waiting, errUnclear
	}
	return b, nil, nil
}

// Begin decides how the server self with an empty data directory begins, by what
// the members answer: ask returns that and the cluster they belong to; New stands
// for an empty peer too, and Begun only for a peer that has never asked this server.
// Until that decides it (ok), waiting says for what.
func Begin(self uint64, members []Member, ask func(Member) (reply JoinReply, cluster uint64, err error)) (b Beginning, waiting []string, ok bool) {
	voters, empty, begun := 0, 0, 0
	known := false // that there is an ensemble
	for _, m := range members {
		if !m.Observer {
			voters++
		}
		if m.ID == self {
			if !m.Observer {
				empty++
			}
			continue
		}
		reply, cluster, err := ask(m)
		switch {
		case err != nil:
			waiting = append(waiting, fmt.Sprintf("server %d: %v", m.ID, err))
		case reply.Go:
			return Beginning{Cluster: cluster, JoinedAfter: reply.Index}, nil, true
		case !reply.New:
			known = true
			waiting = append(waiting, fmt.Sprintf("server %d belongs to an ensemble; its leader must let this server in", m.ID))
		case m.Observer:
		case reply.Begun:
			begun++
			waiting = append(waiting, fmt.Sprintf("server %d has begun without this one, maybe long ago: all others must answer", m.ID))
		default:
			empty++
		}
	}
	votes := slices.ContainsFunc(members, func(m Member) bool { return m.ID == self && !m.Observer })
	return Beginning{}, waiting, votes && !known && (empty > voters/2 || empty+begun == voters)
}

func (t *transport) askOne(ctx context.Context, m Member) (s joinState, cluster, index uint64, err error) {
	errs := []error{errors.New("no address")}
	for _, addr := range m.Addrs {
		var c net.Conn
		if c, err = t.greet(addr, hello{connJoin, 0, t.id, m.ID}); err != nil {
			errs = append(errs, err)
			continue
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * dialTimeout))
		var b [17]byte
		if _, err = io.ReadFull(c, b[:]); err == nil {
			return joinState(b[0]), binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), nil
		}
		errs = append(errs, err)
	}
	return 0, 0, 0, errs[len(errs)-1]
}

// Reachable returns how many of members answer, this server included. It blocks
// until all have or ctx ends.
func (p *Peer) Reachable(ctx context.Context, members []Member) int {
	answers := make(chan bool, len(members))
	for _, m := range members {
		go func() {
			ok := m.ID == p.o.ID
			for _, addr := range m.Addrs {
				if ok {
					break
				}
				if c, err := p.transport.greetWithin(ctx, addr, hello{connPing, p.o.Cluster, p.o.ID, m.ID}); err == nil {
					ok = true
					c.Close()
				}
			}
			answers <- ok
		}()
	}
	n := 0
	for range members {
		select {
		case ok := <-answers:
			if ok {
				n++
			}
		case <-ctx.Done():
			return n
		}
	}
	return n
}

// A JoinReply answers EventJoin.
type JoinReply struct {
	New   bool   // this server has only just begun: there was no election yet
	Begun bool   // New, and it has a log
	Go    bool   // the server may start; it is in no membership
	Index uint64 // of the last committed entry
	Twin  bool   // a server with this id is running and connected
}

// joinRequest answers a server that asks to join.
func (t *transport) joinRequest(c net.Conn, from uint64) {
	reply := make(chan JoinReply, 1)
	t.tell(Event{Kind: EventJoin, From: from, Join: reply})
	state, index := joinWait, uint64(0)
	select {
	case r := <-reply:
		switch {
		case r.Go:
			state, index = joinGo, r.Index
		case r.Twin:
			state = joinTwin
			t.refused(c, hello{from: from}, fmt.Sprintf("it asks to join as server %d with an empty data directory, and that server is running: %s", from, sameID))
		case r.New:
			state = joinEmpty
		}
	case <-time.After(dialTimeout):
	case <-t.ctx.Done():
		return
	}
	c.Write(joinAnswer(state, t.cluster, index))
}

// join handles a server with an empty data directory. While its id is in raft's
// membership the leader takes it out, and holds it out until it has started.
func (l *Loop) join(e Event) {
	if !l.node.IsLeader() {
		begun := l.hard.GetTerm() <= bootstrapTerm && l.o.JoinedAfter == 0
		e.Join <- JoinReply{New: begun, Begun: begun}
		return
	}
	if !contains(l.conf, e.From) {
		l.held = 0
		e.Join <- JoinReply{Go: true, Index: l.applied}
		return
	}
	if l.o.Shell.Connected(e.From) {
		// One of the two is not who it says. The one that runs keeps its place.
		e.Join <- JoinReply{Twin: true}
		return
	}
	e.Join <- JoinReply{}
	remove := []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, e.From)}
	if len(l.conf.GetVotersOutgoing()) > 0 || !l.leavesVoter(remove) || l.held == e.From && l.ticks < l.heldUntil {
		return
	}
	l.held, l.heldUntil = e.From, l.ticks+heldTicks
	l.log.Warn("a server has lost its data directory: it leaves the ensemble and joins anew", "server", e.From)
	if err := l.node.ProposeConfChange(&pb.ConfChangeV2{Changes: remove}); err != nil {
		l.log.Warn("a server that lost its data could not be taken out; it is tried again", "server", e.From, "err", err)
	}
}

// bootstrapTerm is the term of a new group before its first election.
const bootstrapTerm = 1

// heldTicks is how long a server that was taken out is expected to need until it
// asks again.
const heldTicks = 40

// joining reports whether this server must not take part in elections yet.
func (l *Loop) joining() bool {
	if l.o.JoinedAfter == 0 {
		return false
	}
	if !contains(l.conf, l.o.ID) || l.memberSince <= l.o.JoinedAfter {
		return true
	}
	l.o.JoinedAfter = 0
	if l.observes() {
		l.log.Info("this server has joined the ensemble as an observer")
	} else if !slices.Contains(l.conf.GetVoters(), l.o.ID) {
		l.log.Info("this server was let into the ensemble; it is a member, with a vote, once it has caught up")
	}
	if l.o.OnJoined != nil {
		l.o.OnJoined()
	}
	return false
}

// electoral reports whether m asks for a vote or to campaign.
func electoral(m *pb.Message) bool {
	switch m.GetType() {
	case pb.MsgVote, pb.MsgPreVote, pb.MsgTimeoutNow:
		return true
	}
	return false
}

// observes reports whether this server is to have no vote for good.
func (l *Loop) observes() bool {
	members := l.wanted
	if len(members) == 0 {
		members = l.o.Members
	}
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == l.o.ID && m.Observer })
}
