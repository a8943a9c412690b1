package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// A server with an empty data directory may be one of a new ensemble, one that
// joins, or one whose disk was replaced. The last must not go on under its id as
// if nothing had happened: it may have voted, and acknowledged entries that it no
// longer has. So an empty server asks its peers first (a connection of kind connJoin).
//
//	If most voters of its configuration are empty too, or have just begun with it and
//	seen no election, they begin a new ensemble together. A voter that has begun
//	without this server may have done so long ago, and may not know what others have
//	acknowledged since. If there is one, all voters must say that there is no ensemble.
//
//	If a peer belongs to an ensemble, the server joins that, as lost.go says.
//
//	An empty peer may have an older or a newer configuration than this server, and
//	know of an ensemble that this server can't ask. So a server says that it is empty
//	only once it has asked all of its own peers, and only as long as none of them
//	belongs to an ensemble. It counts only what members of an ensemble have told it
//	themselves, so that two empty servers don't keep each other waiting.
//
//	A peer that has said that it belongs to an ensemble is taken to do so until it
//	says otherwise: that it is down now doesn't mean that there is no ensemble.
//
//	hello of kind connJoin: the asker's life(4) and feature level(4) in the cluster field
//	answer to it: state(1) cluster(8) index(8) term(8)
//
// The first version sends no life and reads no term.
type joinState byte

const (
	joinEmpty joinState = iota // the peer has no log either, or only its beginning
	// The peer has a log, and doesn't lead or must take the asker out first. If its cluster is 0, it is an
	// empty peer's answer (JoinReply.Hearsay).
	joinWait
	joinGo          // the peer leads, and the asker was taken out
	joinDuplicateID // the peer leads, and a server with that id is running
)

// joinPause is the time between two rounds of asking.
const joinPause = 100 * time.Millisecond

// Discover finds out how server self, whose data directory is empty, begins. It blocks
// until the peers' answers decide that or ctx ends. Meanwhile it answers the peers' own
// questions on l, which it leaves open. members is the server's configuration, level the
// highest feature level that it knows.
func Discover(ctx context.Context, self uint64, level uint32, members []quorum.Member, l net.Listener, secure Secure,
	log *slog.Logger) (quorum.Beginning, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	t := newTransport(self, 0, secure, log)
	t.level = level
	t.askers, t.belong = map[uint64]bool{}, map[uint64]bool{}
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
		if text := strings.Join(waiting, "; "); t.logRate.due(text, time.Now()) {
			log.Info("this server's data directory is empty: waiting for peers to tell whether there is an ensemble",
				"waiting", text)
		}
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return quorum.Beginning{}, ctx.Err()
		}
	}
}

// interruptAccept makes a blocked Accept return without closing the listener.
func interruptAccept(l net.Listener) {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now())
	}
}

// answerEmpty answers the peers that ask on l, until ctx ends.
func (t *transport) answerEmpty(ctx context.Context, l net.Listener) {
	t.acceptAll(ctx, l, t.answerOneEmpty)
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Time{})
	}
}

func (t *transport) answerOneEmpty(raw net.Conn) {
	a, refusal, err := t.arrive(raw)
	if err != nil {
		t.closed(raw, a.hello.from, err)
		return
	}
	h := a.hello
	switch {
	case a.mode == modePair && t.keys.secured():
		t.letIn(raw, a)
		return
	case refusal != "":
	case t.isSelf(h):
	case h.from == t.id:
		refusal = t.refuse(h)
	case h.kind != connJoin && h.kind != connPing && h.kind != connLife:
		writeAnswer(a.Conn, emptyRefusal)
		linger(raw)
		return
	}
	if refusal != "" {
		t.refused(raw, h, refusal)
		writeAnswer(a.Conn, refusal)
		linger(raw)
		return
	}
	writeAnswer(a.Conn, "")
	switch h.kind {
	case connJoin:
		state := joinWait
		if t.alone.Load() {
			state = joinEmpty
			t.noteAsker(h.from)
		}
		a.Write(joinReplied{state: state}.append(nil))
	case connLife:
		a.Write(binary.BigEndian.AppendUint32(nil, t.life()))
	}
}

// noteAsker records that member id has asked, and so knows that this server is empty.
func (t *transport) noteAsker(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, member := t.askers[id]; member {
		t.askers[id] = true
	}
}

// askedBy reports whether member id has asked, and so knows that this server is empty.
func (t *transport) askedBy(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.askers[id]
}

// emptyRefusal is how a server with an empty data directory refuses connections that need
// a server with data. The exact words are part of the protocol.
const emptyRefusal = "this server has an empty data directory and is finding out how to begin"

// joinReplied is the answer to a server that asks how to begin.
type joinReplied struct {
	state                joinState
	cluster, index, term uint64
}

func (r joinReplied) append(b []byte) []byte {
	b = append(b, byte(r.state))
	for _, v := range []uint64{r.cluster, r.index, r.term} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// readJoinReplied reads an answer. The first version's answer ends before the term.
func readJoinReplied(from io.Reader) (r joinReplied, err error) {
	var b [25]byte
	n, err := io.ReadFull(from, b[:])
	if err != nil && n != len(b)-8 {
		return r, err
	}
	for i, v := range []*uint64{&r.cluster, &r.index, &r.term} {
		*v = binary.BigEndian.Uint64(b[1+8*i:])
	}
	r.state = joinState(b[0])
	return r, nil
}

var errUnclear = errors.New("not enough peers have answered")

// ask asks all members once. The error is errUnclear if their answers don't decide how to begin.
func (t *transport) ask(ctx context.Context,
	members []quorum.Member) (b quorum.Beginning, waiting []string, err error) {
	b, waiting, ok := quorum.Begin(t.id, members, t.belong, func(m quorum.Member) (quorum.JoinReply, uint64, error) {
		r, err := t.askOne(ctx, m)
		return quorum.JoinReply{
			New: r.state == joinEmpty, Begun: r.cluster != 0 && !t.askedBy(m.ID), Hearsay: r.state == joinWait && r.cluster == 0,
			Go: r.state == joinGo, Index: r.index, Term: r.term, DuplicateID: r.state == joinDuplicateID,
		}, r.cluster, err
	})
	t.alone.Store(len(t.belong) == 0)
	if !ok {
		return b, waiting, errUnclear
	}
	return b, nil, nil
}

func (t *transport) askOne(ctx context.Context, m quorum.Member) (r joinReplied, err error) {
	errs := []error{errors.New("no address")}
	for _, addr := range m.Addrs {
		var c greeted
		if c, err = t.greet(ctx, addr, hello{connJoin, uint64(t.life())<<32 | uint64(t.level), t.id, m.ID},
			true); err != nil {
			errs = append(errs, err)
			continue
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(joinPatience))
		if r, err = readJoinReplied(c); err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	return r, errs[len(errs)-1]
}

// joinPatience is how long an answer may take. The peer may first have to connect to the
// asker's own address.
const joinPatience = 4 * dialTimeout

// Reachable returns how many of members answer; this server counts if it is one of them.
// It blocks until each has answered or failed to, or ctx ends.
func (p *Peer) Reachable(ctx context.Context, members []quorum.Member) int {
	answers := make(chan bool, len(members))
	for _, m := range members {
		go func() {
			ok := m.ID == p.o.ID
			for _, addr := range m.Addrs {
				if ok {
					break
				}
				ok = p.transport.reaches(ctx, addr, m.ID)
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

// joinRequest answers a server that asks to join.
func (t *transport) joinRequest(a arrival) {
	h := a.hello
	answer := joinReplied{state: joinWait, cluster: t.cluster}
	e := quorum.Event{
		Kind: quorum.EventJoin, From: h.from, Level: h.joinLevel(), Life: h.life(), Conn: t.accepted.Load(),
		Known: t.remote(h.from) != nil,
	}
	r, ok := t.joinEvent(e)
	if r.Ask {
		if e.Empty = t.isEmpty(h.from, e.Life); e.Empty {
			r, ok = t.joinEvent(e)
		}
	}
	switch {
	case !ok:
		return
	case r.Go:
		answer.state, answer.index, answer.term = joinGo, r.Index, r.Term
	case r.DuplicateID:
		answer.state = joinDuplicateID
		t.refused(a.Conn, h,
			fmt.Sprintf("it asks to join as server %d with an empty data directory, and that server is running: %s", h.from,
				quorum.SameID))
	case r.New:
		answer.state = joinEmpty
	}
	a.Write(answer.append(nil))
}

// joinEvent hands the loop a request to join and waits for the reply. ok is false if this
// server is stopping.
func (t *transport) joinEvent(e quorum.Event) (r quorum.JoinReply, ok bool) {
	reply := make(chan quorum.JoinReply, 1)
	e.Join = reply
	t.tell(e)
	select {
	case r = <-reply:
	case <-time.After(dialTimeout):
	case <-t.ctx.Done():
		return r, false
	}
	return r, true
}
