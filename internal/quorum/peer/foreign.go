package peer

import "time"

// Servers with the same server lines may come to belong to two ensembles: two survivors are each recovered with their
// own data, or a server keeps the disk of a former ensemble. Such servers refuse each other. Each remembers what the
// other has said, so that an operator can ask either.

// foreignFor is how long a server's statement about its ensemble is valid. A refused server repeats it several times a
// second; the rest is slack for busy machines.
const foreignFor = 30 * time.Second

// foreign is the history that a member says it belongs to, if that isn't this server's.
type foreign struct {
	lineage uint64
	at      time.Time // when it said so last
}

// noteForeign records, for a refused connection, the history that its server belongs to, if the server is a member, has
// proven its identity, and belongs to another history than this one.
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

// Foreign returns the members that say they belong to another history than this server, with that history.
func (p *Peer) Foreign() map[uint64]uint64 {
	return told(p.transport, func(r *remote) uint64 {
		if time.Since(r.foreign.at) < foreignFor {
			return r.foreign.lineage
		}
		return 0
	})
}
