package replica

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// Forwarding: requests of a follower's clients reach the leader in order, each exactly once, even
// if the leader changes.
//
// A follower hands its clients' requests to the leader, as records. It keeps each record until its entry is applied
// here. When the leader or the connection to it changes, the follower can't know which records arrived, and sends all
// unapplied ones again, in order. The tree drops records that it has seen before (D6), so nothing is applied twice.
// Nothing is applied out of order either: a request that is not its connection's next is dropped too, and is sent again
// after the missing one.

// Forward returns the requests that wait to be sent to the leader.
func (r *Replica) Forward() []byte {
	r.proposals.Reuse(r.loop.batch)
	var queued int64
	if r.loop.batch, queued = r.proposals.Forward(); r.loop.batch == nil {
		r.unanswered.wake() // all that waited may have been of gone clients
		return nil
	}
	r.meters.Stages.queue.Observe(queued)
	r.overload.noteWait(queued, r.now())
	return r.loop.batch[proposals.HeadSize:]
}

// Forwarded takes requests that a follower forwards for its clients.
func (r *Replica) Forwarded(records []byte) error {
	batch := tree.RecordsOf(records)
	now := r.now() / 1e6
	r.mu.Lock()
	defer r.mu.Unlock()
	var q tree.Request
	for batch.Next(&q) {
		if err := r.levels.forwardable(&q); err != nil {
			return fmt.Errorf("take forwarded requests: %w", err)
		}
		if q.Op == tree.OpAttach && r.provesRecord(&q) {
			r.expiry.Touch(q.Session, now) // so that no expiry of the session follows it in the log
		}
	}
	if err := batch.Err(); err != nil {
		return fmt.Errorf("take forwarded requests: %w", err)
	}
	records = r.levels.withoutNewer(records)
	if goesFirst(records) {
		r.proposals.AddFirst(records)
	} else {
		r.proposals.AddRecords(records)
	}
	return nil
}

// Resend puts every unapplied write of this server's clients in the proposals again, and closes connections whose
// session was about to be attached. All other proposals are dropped: they came from followers, which resend them, or
// from a former leader.
func (r *Replica) Resend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resend()
}

// resend is Resend with mu held for writing.
func (r *Replica) resend() {
	r.proposals.Clear()
	r.locals.resend()
	for _, c := range r.clientsByID() {
		switch {
		case c.arrival.attach == nil:
		case c.arrival.sent:
			c.CloseAfter("its session may have been attached or not when the leader was lost; it tries again")
		default:
			r.sendAttach(c)
		}
		c.mu.Lock()
		for _, q := range c.unanswered.items[c.unanswered.head:] {
			if q.isWrite() && !q.held {
				r.proposals.AddRecords(q.body)
			}
		}
		c.mu.Unlock()
	}
}

// Clients returns the clients connected here, in any order.
func (s *state) Clients() []*Client {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Client, 0, len(s.clients))
	for _, c := range s.clients { // any order: callers sum up, or treat each independently
		all = append(all, c)
	}
	return all
}

func (s *state) clientsByID() []*Client {
	return slices.SortedFunc(maps.Values(s.clients), func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
}

// Report returns the sessions of this server's clients that sent something since the last call, including those whose
// connection has ended meanwhile: 8 bytes each, in ascending order. It doesn't wait for mu.
func (r *Replica) Report() []byte {
	heard := r.hearing.news()
	b := make([]byte, 0, sessionSize*len(heard))
	for _, id := range heard {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	return b
}

// Reported records the sessions in a follower's report as alive. It doesn't wait for mu.
func (r *Replica) Reported(report []byte) {
	now := r.now() / 1e6
	for b := report; len(b) >= sessionSize; b = b[sessionSize:] {
		r.expiry.Touch(int64(binary.BigEndian.Uint64(b)), now)
	}
}

// sessionSize is how many bytes a session takes in a report.
const sessionSize = 8

// Load reads the state from a snapshot that a peer sent because this server was too far behind to
// catch up from the log. install puts that state in place.
func (r *Replica) Load(meta storage.Meta, snap *storage.Snapshot) (install func(), err error) {
	t, err := r.load(meta, snap)
	if missing := (*tree.MissingRuleError)(nil); errors.As(err, &missing) {
		return nil, &quorum.UnfitError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	if own := r.levels.lineage.Load(); own != 0 && t.Lineage() != 0 && own != t.Lineage() {
		return nil, fmt.Errorf("the snapshot is of the lineage %016x, this server's data of %016x", t.Lineage(), own)
	}
	return func() { r.become(t) }, nil
}

// become replaces the state with t, a snapshot's. Watchers can't be notified of the skipped changes, so all clients'
// connections are closed: the clients reconnect, with their watches, to a server that is not behind.
func (r *Replica) become(t *tree.Tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.use(t)
	r.levels.note()
	r.limiter.changed = true
	r.noteSizes()
	r.loop.digests.note(t.LastIndex(), t.Digest())
	r.catchUp()
	r.proposals.ForgetTaken()
	for _, c := range r.clientsByID() {
		c.arrival.applied = math.MaxInt64 // the snapshot may contain all that it has sent
		c.CloseAfter("this server was behind and took a snapshot from its leader; reconnecting brings the missed events")
	}
	r.expiry.Reset()
	now := r.now() / 1e6
	t.Sessions().All(func(s tree.Session) bool {
		r.expiry.Heard(s.ID, s.Timeout, now)
		return true
	})
	r.locals.settle()
	r.counts.uncountGone()
}

// digests remembers this server's digest after each of the last entries, to compare with the
// digests that the leader sends.
type digests struct {
	ring [digestsKept]struct{ index, digest uint64 }
}

// digestsKept bounds the entries that a leader may have under way if followers are to check its
// digests; Apache's hash command lists as many.
const digestsKept = 1024

func (d *digests) note(index, digest uint64) {
	at := &d.ring[index%digestsKept]
	at.index, at.digest = index, digest
}

// differs reports whether the digest after index is known, and is not digest.
func (d *digests) differs(index, digest uint64) bool {
	at := d.ring[index%digestsKept]
	return index != 0 && at.index == index && at.digest != digest
}

// Doubtful implements quorum.StateMachine.
func (l *loop) Doubtful() bool {
	was := l.doubtful
	l.doubtful = false
	return was
}

// Batch returns the next entry to propose, or nil. Only the leader asks.
func (r *Replica) Batch() []byte {
	r.proposals.Reuse(r.loop.batch)
	b, queued := r.proposals.Take()
	r.loop.batch = b
	if b != nil {
		r.loop.propose(queued)
		proposals.AppendHead(b[:0], r.clock.stamp(), r.tree.LastIndex(), r.tree.Digest())
	} else {
		r.unanswered.wake() // all that waited may have been of gone clients
	}
	return b
}
