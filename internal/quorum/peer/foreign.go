package peer

import "time"

// Servers of one ensemble's lines may come to belong to two: each of two survivors is recovered, with what it holds, or
// one keeps the disk of a former ensemble. They refuse each other. Each keeps in mind what the other has said, so that
// an operator who asks either is told.

// foreignFor is how long a server's word about its ensemble counts. A refused server repeats it several times a second;
// the rest is for busy machines.
const foreignFor = 30 * time.Second

// foreign is the history that a member says it belongs to, if that isn't this server's.
type foreign struct {
	lineage uint64
	at      time.Time // when it said so last
}

// noteForeign notes of a connection that is refused to which history its server belongs, if it is a member, has proven
// that it is of these servers, and belongs to another one.
func (t *transport) noteForeign(a arrival) {
	theirs := a.hello.cluster
	if !byLineage(a.hello.kind) || a.hello.to != t.id || a.legacy() {
		return
	}
	if theirs == t.cluster {
		if theirs = a.lineage; t.otherLineage(theirs) == "" {
			return
		}
	}
	if r := t.remote(a.hello.from); r != nil {
		r.mu.Lock()
		r.foreign = foreign{theirs, time.Now()}
		r.mu.Unlock()
	}
}

// Foreign returns the members that say they belong to another history than this server, and to which.
func (p *Peer) Foreign() map[uint64]uint64 {
	return told(p.transport, func(r *remote) uint64 {
		if time.Since(r.foreign.at) < foreignFor {
			return r.foreign.lineage
		}
		return 0
	})
}
