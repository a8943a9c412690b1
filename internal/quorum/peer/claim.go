package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// A server that is finding out how to begin asks its peers for their state, on a connection of kind connClaim. The
// hello's cluster is 0. The peer answers with one message (internal/quorum/claim.go):
//
//	length(4) answer

// readClaimAnswer reads an answer.
func readClaimAnswer(r io.Reader) (a quorum.Answer, err error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return a, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > quorum.AnswerSizeMax {
		return a, fmt.Errorf("an answer of %d bytes, at most %d", size, quorum.AnswerSizeMax)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return a, err
	}
	return quorum.DecodeAnswer(b)
}

// writeClaimAnswer writes an answer made by quorum.AppendClaim or quorum.AppendBegun.
func writeClaimAnswer(c net.Conn, answer []byte) {
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
}

// errUnknownState says that a peer doesn't tell its state.
var errUnknownState = errors.New("it is of an older version, which begins no ensemble together with this one: upgrade it")

// askWhat asks a peer for its state; if the peer is a member of an ensemble and this server is empty, also whether this
// server may join. tookPart reports whether this server took part in a founding.
func (t *transport) askWhat(ctx context.Context, m quorum.Member, empty bool,
	tookPart func(*quorum.Founding) bool) (a quorum.Answer) {
	nobody, noName := len(m.Addrs) > 0, len(m.Addrs) > 0
	err := errors.New("it has no address")
	for _, addr := range m.Addrs {
		if a, err = t.askWhatAt(ctx, addr, m.ID); err == nil {
			break
		}
		nobody = nobody && errors.Is(err, syscall.ECONNREFUSED)
		unknown := (*net.DNSError)(nil)
		noName = noName && errors.As(err, &unknown) && unknown.IsNotFound
	}
	var refused *refusedError
	switch older := errors.As(err, &refused); {
	case err == nil && !(empty && a.Elected && !tookPart(a.Founding)):
		return a
	case err != nil && !(older && empty):
		if nobody || noName {
			err = nil
		}
		return quorum.Answer{NobodyListens: nobody, NoSuchName: noName, Err: err}
	}
	r, joinErr := t.askOne(ctx, m)
	switch {
	case err == nil && joinErr == nil:
		a.Join = r.reply()
	case err == nil: // it has answered the first question, so it belongs to an ensemble
	case joinErr != nil:
		return quorum.Answer{Err: joinErr}
	case r.state == joinEmpty || r.cluster == 0:
		return quorum.Answer{Err: errUnknownState}
	default:
		a = quorum.Answer{Cluster: r.cluster, Elected: true, Join: r.reply()}
	}
	return a
}

func (t *transport) askWhatAt(ctx context.Context, addr string, id uint64) (a quorum.Answer, err error) {
	c, err := t.greet(ctx, addr, hello{connClaim, 0, t.id, id}, true)
	if err != nil {
		return a, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	return readClaimAnswer(c)
}

// answerWhat answers a peer's question for this server's state.
func (t *transport) answerWhat(c net.Conn) {
	s := t.standing()
	writeClaimAnswer(c, quorum.AppendBegun(nil, t.cluster, s.Elected, s.Leader, t.founding))
}

// ErrOvertaken says that the others have founded an ensemble without this server. This server holds only what theirs
// began with, and has founded no ensemble, or one that has elected no leader.
var ErrOvertaken = errors.New("the other servers have founded an ensemble without this one, and have all that it holds: this server joins theirs")

// overtakenPause is the time between two rounds of questions.
const overtakenPause = time.Second

// rivalRounds is the number of rounds after which an operator is told that another server has founded an ensemble too:
// usually a third server begins with one of the two at once.
const rivalRounds = 5

// watchOvertaken asks the configured members for their state until a leader is elected, this server is stopped, or
// found is called with ErrOvertaken.
func (t *transport) watchOvertaken(members []quorum.Member, found func(error)) {
	never := func(*quorum.Founding) bool { return false }
	rounds := map[uint64]int{} // by server: number of rounds in which it was a rival
	for t.founding != nil && t.ctx.Err() == nil && !t.standing().Elected {
		answers := map[uint64]quorum.Answer{}
		for _, m := range members {
			if m.ID == t.id {
				continue
			}
			a := t.askWhat(t.ctx, m, false, never)
			answers[m.ID] = a
			if a.Cluster != 0 && !a.Elected && a.Cluster != t.founding.Lineage {
				rounds[m.ID]++
			} else {
				rounds[m.ID] = 0
			}
			if rounds[m.ID] >= rivalRounds && t.logRate.Due(fmt.Sprintf("rival %d", m.ID), time.Now()) {
				t.log.Warn("another server has founded an ensemble too, and neither has a leader: a server that hasn't begun yet may decide it, so start all of them. If this continues, stop both, run 'zooid recover -set-aside' on each and 'zooid found' on one of them, and start both",
					"server", m.ID, "cluster", fmt.Sprintf("%016x", a.Cluster), "own", fmt.Sprintf("%016x", t.founding.Lineage))
			}
		}
		if t.founding.Overtaken(answers) && !t.standing().Elected {
			found(ErrOvertaken)
			return
		}
		select {
		case <-time.After(overtakenPause):
		case <-t.ctx.Done():
		}
	}
}
