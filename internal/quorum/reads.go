package quorum

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// reads holds the syncs under way: which ticket can be answered once which index
// is applied. A question asks the leader for that index (ReadIndex).
type reads struct {
	asked   uint64 // ticket of the open question, 0 if none
	id      uint64 // id in the question's context; never used twice, not even for a retry
	next    uint64 // ticket of the next question, 0 if none
	since   uint64 // tick of the open question
	ready   uint64 // ticket that waits until index readyAt is applied
	readyAt uint64
}

// readRetryTicks is the number of ticks after which a question counts as lost.
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

// readContextSize is the size of a question's context, in bytes.
const readContextSize = 16

// readContext returns the context of a question, which no other question of any server
// has. An answer to an earlier run of this server may come late, and raft treats two
// questions with the same context as one.
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
	if r.ready != 0 && l.applied >= r.readyAt && !l.tasks.underWay() { // else entries up to l.applied are being applied
		ticket := r.ready
		r.ready = 0
		l.tell(func() { l.o.State.Synced(ticket) })
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
