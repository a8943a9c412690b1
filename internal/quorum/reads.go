package quorum

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// reads are the syncs under way: which ticket may be answered once which index
// is applied.
type reads struct {
	asked   uint64 // ticket of the question under way, 0 if none
	id      uint64 // its context; never used twice, not even for a retry
	next    uint64 // ticket to ask for after it
	since   uint64 // tick of the question
	ready   uint64 // ticket that waits for readyAt
	readyAt uint64
}

// readRetryTicks is after how many ticks a question counts as lost.
const readRetryTicks = 5

func (r *reads) ask(p *Peer, ticket uint64) {
	if r.asked != 0 {
		r.next = ticket
		return
	}
	r.asked, r.since = ticket, p.ticks
	r.id++
	p.node.ReadIndex(binary.BigEndian.AppendUint64(nil, r.id))
}

func (r *reads) answered(p *Peer, rs raft.ReadState) {
	if len(rs.RequestCtx) != 8 || binary.BigEndian.Uint64(rs.RequestCtx) != r.id || r.asked == 0 {
		return
	}
	r.ready, r.readyAt, r.asked = r.asked, rs.Index, 0
	r.applied(p)
	if r.next != 0 {
		next := r.next
		r.next = 0
		r.ask(p, next)
	}
}

func (r *reads) applied(p *Peer) {
	if r.ready != 0 && p.applied >= r.readyAt {
		ticket := r.ready
		r.ready = 0
		p.o.State.Synced(ticket)
	}
}

// tick asks again if the question seems lost.
func (r *reads) tick(p *Peer) {
	if r.asked != 0 && p.ticks-r.since > readRetryTicks {
		r.retry(p)
	}
}

func (r *reads) retry(p *Peer) {
	if r.asked == 0 {
		return
	}
	ticket := max(r.asked, r.next)
	r.asked, r.next = 0, 0
	r.ask(p, ticket)
}
