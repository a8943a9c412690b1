package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// A transfer is the connection of its own on which a server streams a snapshot to a peer. It ends with either process,
// after streamPatience without progress, and when the receiver gets a newer one. What has arrived is kept by the
// receiver (storage.Incoming). The sender goes on if it leads no longer, and if the snapshot is removed meanwhile.
type transfer struct {
	l       *life // sends it
	to      *host
	peer    *life // takes it
	snap    *storage.Snapshot
	message []byte
	into    *storage.Part
	moved   int64 // when it last made progress
	over    bool
}

const (
	// streamRate is how many bytes of a snapshot are sent per ns, over a link that isn't slow.
	streamRate = 0.02
	// streamParts is the number of parts in which a snapshot is sent over a slow link.
	streamParts    = 8
	streamPatience = 10 * second
)

var errEnded = errors.New("the connection ended")

// SendSnapshot implements quorum.Shell. A server that still asks how to begin accepts none.
func (l *life) SendSnapshot(to, index uint64, message []byte) {
	if l.sending[to] != nil {
		return
	}
	l.w.stats.SnapshotsSent++
	other := l.w.servers[to-1]
	t := &transfer{l: l, to: other, peer: other.life, message: slices.Clone(message), moved: l.w.now}
	l.sending[to] = t
	snap, err := l.dir.OpenSnapshot(index)
	if err != nil {
		t.end(err)
		return
	}
	t.snap = snap
	l.w.after(l.elapsed+4*l.w.delayTo(l.s.index, other.index), t.begin)
}

// gone reports whether the connection has ended, or can't be made.
func (t *transfer) gone() bool {
	return t.over || t.l.ended || t.peer == nil || t.peer.ended || t.peer.dir == nil
}

// begin lets the receiver say where to go on.
func (t *transfer) begin() {
	peer, w := t.peer, t.l.w
	if t.gone() || t.blocked() {
		t.end(errEnded)
		return
	}
	if peer.taking != nil {
		w.stats.Superseded++
		peer.taking.end(errEnded)
	}
	if t.gone() { // the power may have gone off
		t.end(errEnded)
		return
	}
	peer.taking = t
	err := errEnded
	peer.unhurried(func() { t.into, err = peer.incoming.Resume(peer.dir, t.snap.Index, t.snap.Term, t.snap.Size()) })
	if err != nil {
		t.into = nil
		t.end(err)
		return
	}
	if off := t.into.Offset(); off > 0 {
		w.stats.Resumed++
		if of := peer.part; of.Index != t.snap.Index || of.Term != t.snap.Term {
			w.fail("server %d goes on at byte %d of the snapshot at %d with a part of that at %d", t.to.id, off, t.snap.Index,
				of.Index)
		}
	}
	peer.part = t.snap.Meta
	t.next()
}

// blocked reports whether nothing arrives.
func (t *transfer) blocked() bool { return t.l.w.cut(t.l.s.index, t.to.index) || t.to.paused() }

// size returns the number of bytes to send next.
func (t *transfer) size() int64 {
	n := t.snap.Size()
	if t.l.w.plan.Stream > 0 {
		n = n/streamParts + 1
	}
	return min(n, t.snap.Size()-t.into.Offset())
}

// next sends the next bytes.
func (t *transfer) next() {
	took := int64(float64(t.size()) / streamRate)
	if slow := t.l.w.plan.Stream; slow > 0 {
		if took = slow / streamParts; t.to.lagging { // one snapshot is excused, not one after another
			t.to.heldTo = max(t.to.heldTo, t.l.w.now+took)
		}
	}
	t.moved = t.l.w.now
	t.l.w.after(took, t.arrive)
}

// arrive takes the next bytes, which are read from the sender's disk only now.
func (t *transfer) arrive() {
	w, peer, s := t.l.w, t.peer, t.l.s
	switch {
	case t.gone() || w.now-t.moved > streamPatience:
		t.end(errEnded)
		return
	case t.blocked():
		w.after(retransmit, t.arrive)
		return
	case t.size() == t.snap.Size()-t.into.Offset() && t.to.disk.hung.files > 0:
		t.to.wantsTo = t.to.disk.hung.filesTo // it knows nothing newer until the snapshot is synced
		w.held(t.to, t.to.wantsTo)
		t.moved = t.to.wantsTo
		t.to.whenSynced(t.arrive)
		return
	}
	b := make([]byte, t.size())
	if n, err := t.snap.ReadAt(b, t.into.Offset()); n < len(b) {
		w.fail("server %d can't read on in the snapshot at %d, which it sends: %v", s.id, t.snap.Index, err)
		return
	}
	err := errEnded
	t.to.disk.receiving = true
	peer.unhurried(func() {
		if err = t.into.WriteRaw(b); err != nil {
			err = errors.Join(err, t.into.Abort())
			t.into = nil
		}
	})
	t.to.disk.receiving = false
	switch {
	case err != nil || peer.ended:
		t.end(fmt.Errorf("%w: %w", errEnded, err))
	case t.into.Offset() < t.snap.Size():
		t.next()
	default:
		if all, err := storage.SnapshotIndexes(s.disk.fs, dataDir); err == nil && !slices.Contains(all, t.snap.Index) {
			w.stats.Outlived++
		}
		if !t.l.loop.IsLeader() {
			w.stats.Deposed++
		}
		peer.hear(quorum.Event{Kind: quorum.EventSnapshot, From: s.id, Data: t.message, File: t.into.SnapshotWriter})
		t.into, t.to.lagging = nil, false
		t.end(nil)
	}
}

// end ends the connection, and tells the sender.
func (t *transfer) end(err error) {
	if t.over {
		return
	}
	t.over = true
	l, peer := t.l, t.peer
	delete(l.sending, t.to.id)
	if t.snap != nil {
		t.snap.Close()
	}
	if peer != nil && peer.taking == t {
		peer.taking = nil
	}
	if t.into != nil && !peer.ended {
		l.w.stats.Broken++
		peer.unhurried(func() { peer.incoming.Keep(t.into) })
	}
	l.w.after(l.w.delayTo(t.to.index, l.s.index), func() {
		l.hear(quorum.Event{Kind: quorum.EventSent, From: t.to.id, Err: err})
	})
}
