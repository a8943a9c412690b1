package peer

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// Earlier versions derived an ensemble's cluster id from its server lines, so two ensembles may have the same id. Such
// ensembles agree on a random number by the log, the lineage (quorum.StateMachine.Lineage). A server keeps it in a
// file, and sends it to its peers in two ways:
//
//   - in the hello of each connection that carries the ensemble's data. The accepting side refuses any lineage but its
//     own.
//   - in a note to the dialling side of connections that it accepts, including those older than
//     the lineage. The dialling side closes the connection if its own lineage differs.
//
// Every server dials all others, so both connections between two servers are checked, and neither
// stays open once servers of different lineages know theirs. A server that lags behind and doesn't
// know its lineage yet is accepted by its cluster id.
//
// A server sends its lineage only after applying the log's entry, so every member knows the feature
// level that introduced the lineage, and can read it.

// helloLineage marks the kind of a hello that is followed by a lineage.
const helloLineage byte = 0x40

// keptLineage is the file with the lineage.
var keptLineage = &keptNumber{
	name: "lineage", text: "cluster %016x\nlineage %016x\n", without: "the lineage is read from the log",
}

// noteLineage keeps the lineage once the log has determined it, and sends it to the peers. It returns an error if the
// log and the file differ.
func (p *Peer) noteLineage() error {
	t, lineage := p.transport, p.o.State.Lineage()
	known := t.lineage.Load()
	switch {
	case lineage == 0 || lineage == known:
		return nil
	case known != 0:
		return fmt.Errorf("compare the lineage in the log with the one that this server has kept: %w",
			&storage.ClusterError{File: keptLineage.name + ".kept", Found: known, Wanted: lineage})
	}
	if err := keptLineage.write(p.o.Dir, p.o.Cluster, lineage); err != nil {
		if t.logRate.Due("lineage", time.Now()) {
			t.log.Warn("the file that records the ensemble's lineage can't be written; it will be tried again", "err", err)
		}
		return nil
	}
	t.log.Info("this server knows the id that its ensemble's log has: it exchanges nothing with servers whose log has another",
		"log", fmt.Sprintf("%016x", lineage))
	t.learn(lineage)
	return nil
}

// learn sets this server's lineage. It sends the lineage to all peers, and closes the connections to those that have
// sent another one.
func (t *transport) learn(lineage uint64) {
	t.lineage.Store(lineage)
	t.announceAll()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.remotes { // any order: each is independent
		r.compareLineage()
	}
}

// byLineage reports whether only servers of the same lineage may make a kind of connection.
func byLineage(kind byte) bool {
	return kind == connMessages || kind == connSnapshot || kind == connMeet || kind == connGuest
}

// withLineage returns the bytes of a hello, with this server's lineage if the hello's kind has one.
func (t *transport) withLineage(h hello) []byte {
	lineage := t.lineage.Load()
	if lineage == 0 || !byLineage(h.kind) {
		return h.append(nil)
	}
	h.kind |= helloLineage
	return binary.BigEndian.AppendUint64(h.append(nil), lineage)
}

// readLineage reads the lineage after a hello that announces one.
func (a *arrival) readLineage() error {
	kind := a.hello.kind &^ helloLineage
	if kind == a.hello.kind || !byLineage(kind) {
		return nil
	}
	a.hello.kind = kind
	var b [8]byte
	if _, err := io.ReadFull(a.Conn, b[:]); err != nil {
		return fmt.Errorf("read a peer's lineage: %w", err)
	}
	a.lineage = binary.BigEndian.Uint64(b[:])
	return nil
}

// otherLineage returns the reason to refuse a peer of another lineage, or "".
func (t *transport) otherLineage(theirs uint64) string {
	own := t.lineage.Load()
	if own == 0 || theirs == 0 || own == theirs {
		return ""
	}
	return fmt.Sprintf("this server's ensemble has the lineage %016x, yours %016x: they are two ensembles, which an earlier version founded with the same server lines. One of the two servers has the other's address, or a data directory of the other ensemble",
		own, theirs)
}

// heardLineage records the lineage that the peer sends on the connection to it.
func (r *remote) heardLineage(lineage uint64) {
	r.mu.Lock()
	r.lineage = lineage
	r.mu.Unlock()
	r.compareLineage()
}

// compareLineage closes the connection to a peer that has sent a lineage other than this server's.
func (r *remote) compareLineage() {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.t.otherLineage(r.lineage)
	if why == "" || r.conn == nil {
		return
	}
	if r.t.logRate.Due(fmt.Sprintf("lineage %d", r.id), time.Now()) {
		r.t.log.Warn("the connection to a server of another lineage is closed", "peer", r.id, "why", why)
	}
	r.conn.Close()
}
