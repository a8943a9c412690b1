package quorum

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// reads holds the syncs under way: which ticket can be answered after which index is applied. A question asks the
// leader for that index (ReadIndex).
type reads struct {
	asked   uint64 // ticket of the open question, 0 if none
	first   uint64 // id of the open question when first asked; each repetition has the next id
	id      uint64 // id in the question's context; never used twice, not even for a repetition
	next    uint64 // ticket of the next question, 0 if none
	since   uint64 // tick when the open question was last asked
	ready   uint64 // ticket that waits until index readyAt is applied
	readyAt uint64
}

// readRetryTicks is the number of ticks after which a question may be lost, and is asked again. An answer takes two
// round trips, which may be longer: so the answer to any repetition counts.
const readRetryTicks = 5

func (r *reads) ask(l *Loop, ticket uint64) {
	if r.asked != 0 {
		r.next = ticket
		return
	}
	r.asked, r.first = ticket, r.id+1
	r.send(l)
}

// send asks the open question, perhaps again.
func (r *reads) send(l *Loop) {
	r.since = l.ticks
	r.id++
	l.node.ReadIndex(readContext(l.o.Incarnation, r.id))
}

// readContextSize is the size of a question's context, in bytes.
const readContextSize = 16

// readContext returns the context of a question. No other question of any server has the same one. An answer to an
// earlier run of this server may come late, and raft treats two questions with the same context as one.
func readContext(incarnation, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, incarnation), id)
}

// isOpen reports whether a context is that of the open question or of one of its repetitions.
func (r *reads) isOpen(l *Loop, context []byte) bool {
	if r.asked == 0 || len(context) != readContextSize || binary.BigEndian.Uint64(context) != l.o.Incarnation {
		return false
	}
	id := binary.BigEndian.Uint64(context[readContextSize/2:])
	return r.first <= id && id <= r.id
}

func (r *reads) answered(l *Loop, rs raft.ReadState) {
	if !r.isOpen(l, rs.RequestCtx) {
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
	if r.ready != 0 && l.applied >= r.readyAt && !l.tasks.underWay() { // else entries up to l.applied may be being applied
		ticket := r.ready
		r.ready = 0
		l.tell(func() { l.state.Synced(ticket) })
	}
}

// tick asks again if the question seems lost.
func (r *reads) tick(l *Loop) {
	if l.ticks-r.since > readRetryTicks {
		r.retry(l)
	}
}

// retry asks the open question again, if there is one. The next one waits for its answer.
func (r *reads) retry(l *Loop) {
	if r.asked != 0 {
		r.send(l)
	}
}
