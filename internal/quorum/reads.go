package quorum

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// reads are the syncs under way: which ticket may be answered once which index
// is applied.
type reads struct {
	asked   uint64 // ticket of the question under way, 0 if none
	id      uint64 // in its context; never used twice, not even for a retry
	next    uint64 // ticket to ask for after it
	since   uint64 // tick of the question
	ready   uint64 // ticket that waits for readyAt
	readyAt uint64
}

// readRetryTicks is after how many ticks a question counts as lost.
const readRetryTicks = 5

func (r *reads) ask(l *Loop, ticket uint64) {
	if r.asked != 0 {
		r.next = ticket
		return
	}
	r.asked, r.since = ticket, l.ticks
	r.id++
	l.node.ReadIndex(readContext(l.o.Incarnation, r.id))
}

// readContextSize is the size of the context of a question.
const readContextSize = 16

// readContext is the context of a question: no other question of any server has it.
// The answer to a former life of this server may come late, and raft takes two
// questions with one context for one.
func readContext(incarnation, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, incarnation), id)
}

func (r *reads) answered(l *Loop, rs raft.ReadState) {
	if r.asked == 0 || !bytes.Equal(rs.RequestCtx, readContext(l.o.Incarnation, r.id)) {
		return
	}
	r.ready, r.readyAt, r.asked = r.asked, rs.Index, 0
	r.applied(l)
	if r.next != 0 {
		next := r.next
		r.next = 0
		r.ask(l, next)
	}
}

func (r *reads) applied(l *Loop) {
	if r.ready != 0 && l.applied >= r.readyAt {
		ticket := r.ready
		r.ready = 0
		l.o.State.Synced(ticket)
	}
}

// tick asks again if the question seems lost.
func (r *reads) tick(l *Loop) {
	if r.asked != 0 && l.ticks-r.since > readRetryTicks {
		r.retry(l)
	}
}

func (r *reads) retry(l *Loop) {
	if r.asked == 0 {
		return
	}
	ticket := max(r.asked, r.next)
	r.asked, r.next = 0, 0
	r.ask(l, ticket)
}
