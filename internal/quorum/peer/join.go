package peer

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

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// A server that belongs to no ensemble yet asks its peers before it begins: it may belong to a new ensemble, join an
// existing one, or have a replaced disk. With a replaced disk it must not continue under its id as if nothing had
// happened: it may have voted, and acknowledged entries that it no longer has. quorum.Inquiry decides how the server
// begins, from the peers' states (claim.go). If a peer belongs to an ensemble, the server joins that, as
// internal/quorum/lostdisk.go says, by a connection of kind connJoin:
//
//	hello of kind connJoin: the asker's life(4) and feature level(4) in the cluster field
//	answer to it: state(1) cluster(8) index(8) term(8) level(4)
//
// The first version sends no life and reads no term; versions before feature level 3 don't read the level in force.
// Earlier versions also begin ensembles by that answer; they are told to wait.
type joinState byte

const (
	joinEmpty joinState = iota // sent by earlier versions: the peer has no log either, or only its beginning
	// The peer has a log, and doesn't lead or must take the asker out first. If its cluster is 0, it
	// is finding out how to begin, too.
	joinWait
	joinGo          // the peer leads, and the asker was taken out
	joinDuplicateID // the peer leads, and a server with that id is running
)

// joinPause is the time between two rounds of asking.
const joinPause = 100 * time.Millisecond

// servesPause replaces joinPause while a server serves clients without having the server lines: Apache's servers log
// each connection that ends without a session.
const servesPause = 2 * time.Second

// FoundingPatience is how long a voter must be absent, because nobody listens at its address or
// its name doesn't exist, before the others found an ensemble without it. Servers are often
// started one after another. Name services cache a missing name for half a minute.
var FoundingPatience = quorum.Patience{Listens: 10_000, Name: 60_000}

// Discovery holds the arguments of Discover.
type Discovery struct {
	Self      uint64
	Level     uint32          // highest feature level that the server knows
	Members   []quorum.Member // of the server's configuration
	Holds     quorum.Holding  // what its data directory holds
	JoinsOnly bool            // it must not found an ensemble
	// Ordered, if not nil, reports whether an operator has ordered the server to found an ensemble.
	Ordered func() bool
	// DropOrder, if not nil, drops that order. It is called when a server answers whose ensemble has or had a leader: the
	// operator gave the order without knowing of that ensemble, and the order must not count once that server is silent.
	DropOrder func() error
	Patience  quorum.Patience
	// Clients are the addresses ("host:port") at which the others may serve clients, by id. A server that listens there,
	// but not for peers, has data: a standalone server listens for clients only.
	Clients map[uint64][]string
	// IsOwn, if not nil, reports whether a connection that this server has made leads to one of its own client ports.
	IsOwn func(net.Conn) bool
	// Heard are the servers that Keep was last called with, by an earlier start of this server. Keep, if not nil, records
	// them durably whenever they change (quorum.Inquiry.Data).
	Heard []uint64
	Keep  func(heard []uint64) error
	// Waiting, if not nil, is told after each round what the server waits for.
	Waiting  func(string)
	Listener net.Listener // on the peer port
	Secure   Secure
	Log      *slog.Logger
}

// Discover finds out how a server that belongs to no ensemble yet begins. It blocks until the
// peers' answers decide that or ctx ends. Meanwhile it answers the peers' own questions on
// d.Listener, which it leaves open.
func Discover(ctx context.Context, d Discovery) (quorum.Beginning, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	t := newTransport(d.Self, 0, d.Secure, d.Log)
	t.level, t.configured = d.Level, d.Members
	ordered := func() bool { return d.Ordered != nil && d.Ordered() }
	q := &quorum.Inquiry{
		Self: d.Self, Life: t.nonce, Members: d.Members, Holds: d.Holds, JoinsOnly: d.JoinsOnly, Lineage: max(newNonce(), 1),
		Level: d.Level, Patience: d.Patience, Heard: d.Heard, Ordered: ordered(),
	}
	t.empty = q.Empty()
	t.claim.Store(new(q.Claim()))
	wg.Go(func() { t.answerAll(ctx, d.Listener) })
	defer interruptAccept(d.Listener)
	began := time.Now()
	for {
		answers := t.askAll(ctx, q, &d)
		ordered := ordered()
		b, waiting, ok := q.Round(time.Since(began).Milliseconds(), answers, ordered)
		if ok || ctx.Err() != nil {
			return b, ctx.Err()
		}
		if ordered && d.DropOrder != nil && anyElected(answers) {
			if err := d.DropOrder(); err != nil {
				return b, err
			}
		}
		if heard := q.Data(); d.Keep != nil && !slices.Equal(heard, d.Heard) {
			if err := d.Keep(heard); err != nil {
				return b, err
			}
			d.Heard = heard
		}
		t.claim.Store(new(q.Claim()))
		text := strings.Join(waiting, "; ")
		if d.Waiting != nil {
			d.Waiting(text)
		}
		if t.logRate.Due(text, time.Now()) {
			d.Log.Info("this server belongs to no ensemble yet, and waits to found or to join one", "holds", d.Holds.String(),
				"waiting", text)
		}
		pause := joinPause
		for _, a := range answers {
			if a.Serves != "" {
				pause = servesPause
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return quorum.Beginning{}, ctx.Err()
		}
	}
}

// anyElected reports whether a server belongs to an ensemble in which there may have been an election.
func anyElected(answers map[uint64]quorum.Answer) bool {
	for _, a := range answers { // any order: one is enough
		if a.Elected {
			return true
		}
	}
	return false
}

// askAll asks all members once, each on a goroutine of its own.
func (t *transport) askAll(ctx context.Context, q *quorum.Inquiry, d *Discovery) map[uint64]quorum.Answer {
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers := map[uint64]quorum.Answer{}
	for _, m := range q.Members {
		if m.ID == t.id {
			continue
		}
		wg.Go(func() {
			a := t.askWhat(ctx, m, t.empty, q.TookPart)
			if a.NobodyListens {
				a.Serves = d.servesAt(ctx, m.ID)
				a.NobodyListens = a.Serves == ""
			}
			mu.Lock()
			defer mu.Unlock()
			answers[m.ID] = a
		})
	}
	wg.Wait()
	return answers
}

// servesAt returns the first address at which something else than this server accepts connections for a member's
// clients, "" if nothing does.
func (d *Discovery) servesAt(ctx context.Context, id uint64) string {
	for _, addr := range d.Clients[id] {
		if c, err := (&net.Dialer{Timeout: handshakeTimeout}).DialContext(ctx, "tcp", addr); err == nil {
			own := d.IsOwn != nil && d.IsOwn(c)
			c.Close()
			if !own {
				return addr
			}
		}
	}
	return ""
}

// interruptAccept makes a blocked Accept return without closing the listener.
func interruptAccept(l net.Listener) {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now())
	}
}

// answerAll answers the peers that ask on l, until ctx ends.
func (t *transport) answerAll(ctx context.Context, l net.Listener) {
	t.acceptAll(ctx, l, t.answerOne)
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Time{})
	}
}

func (t *transport) answerOne(raw net.Conn) {
	a, refusal, err := t.arrive(raw)
	if err != nil {
		t.closed(raw, a.hello.from, err)
		return
	}
	h := a.hello
	switch {
	case a.mode == handshake.ModePair && t.keys.Secured():
		t.letIn(raw, a)
		return
	case refusal != "":
	case t.isSelf(h):
	case h.from == t.id:
		refusal = t.refuse(h)
	case h.to != t.id:
		refusal = t.misdirected(h)
	case h.kind == connLife && !t.empty:
		refusal = "this server has data"
	case h.kind != connJoin && h.kind != connPing && h.kind != connLife && (h.kind != connClaim || a.legacy()):
		refusal := emptyRefusal
		if !t.empty {
			refusal = dataRefusal
		}
		writeAnswer(a.Conn, refusal)
		handshake.Linger(raw)
		return
	}
	if refusal != "" {
		t.refused(raw, h, refusal)
		writeAnswer(a.Conn, refusal)
		handshake.Linger(raw)
		return
	}
	writeAnswer(a.Conn, "")
	switch h.kind {
	case connJoin:
		a.Write(joinReplied{state: joinWait}.append(nil))
	case connClaim:
		writeClaimAnswer(a.Conn, quorum.AppendClaim(nil, *t.claim.Load()))
	case connLife:
		a.Write(binary.BigEndian.AppendUint32(nil, t.life()))
	}
}

// A server that is finding out how to begin refuses, with one of these, connections that need a server of an ensemble.
const (
	emptyRefusal = "this server has an empty data directory and is finding out how to begin" // part of the protocol
	dataRefusal  = "this server has data of its own, belongs to no ensemble, and is finding out how to begin: its log says what it waits for"
)

// joinReplied is the answer to a server that asks how to begin.
type joinReplied struct {
	state                joinState
	cluster, index, term uint64
	level                uint32 // in force, 0 if the peer doesn't say
	unproven             bool   // the peer proved nothing; not sent
}

func (r joinReplied) append(b []byte) []byte {
	b = append(b, byte(r.state))
	for _, v := range []uint64{r.cluster, r.index, r.term} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, r.level)
}

// readJoinReplied reads an answer. The first version's answer ends before the term, and that of some later versions
// before the level.
func readJoinReplied(from io.Reader) (r joinReplied, err error) {
	var b [29]byte
	n, err := io.ReadFull(from, b[:])
	if err != nil && n != len(b)-4 && n != len(b)-12 {
		return r, err
	}
	for i, v := range []*uint64{&r.cluster, &r.index, &r.term} {
		*v = binary.BigEndian.Uint64(b[1+8*i:])
	}
	r.state, r.level = joinState(b[0]), binary.BigEndian.Uint32(b[25:])
	return r, nil
}

// reply returns the answer in quorum's form.
func (r *joinReplied) reply() quorum.JoinReply {
	return quorum.JoinReply{
		Go: r.state == joinGo, Index: r.index, Term: r.term, DuplicateID: r.state == joinDuplicateID,
		Admission: quorum.Admission{Level: r.level, Unproven: r.unproven},
	}
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
			r.unproven = c.legacy
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
	answer := joinReplied{state: joinWait, cluster: t.cluster, level: t.inForce.Load()}
	e := quorum.Event{
		Kind: quorum.EventJoin, From: h.from, Level: h.joinLevel(), Life: h.life(), Conn: t.accepted.Load(),
		Known: t.remote(h.from) != nil,
	}
	r, ok := t.joinEvent(e)
	if r.Ask {
		if e.Empty = t.isEmpty(h.from, e.Life); e.Empty {
			r, ok = t.joinEvent(e)
		} else {
			t.notThere(h.from)
		}
	}
	switch {
	case !ok:
		return
	case r.Go:
		answer.state, answer.index, answer.term = joinGo, r.Index, r.Term
	case r.DuplicateID:
		answer.state = joinDuplicateID
		why := fmt.Sprintf("it asks to join as server %d with an empty data directory, and that server is running: %s", h.from,
			quorum.SameID)
		t.noteSameID(a, why)
		t.refused(a.Conn, h, why)
	}
	a.Write(answer.append(nil))
}

// notThere logs that a server that asks to join isn't at its address.
func (t *transport) notThere(id uint64) {
	r := t.remote(id)
	if r == nil || !t.logRate.Due(fmt.Sprintf("not there %d", id), time.Now()) {
		return
	}
	r.mu.Lock()
	addrs := strings.Join(r.addrs, ", ")
	r.mu.Unlock()
	t.log.Warn("a server asks to join and isn't admitted: no empty server with its id answers at its address in the membership. If that address is wrong, correct it by reconfig; if this server is alone, correct the server lines in its zoo.cfg and start it again",
		"server", id, "address", addrs)
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
