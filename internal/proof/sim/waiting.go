package sim

import "github.com/zooid-project/zooid/internal/quorum"

// A waiting is what a server has sent on a connection and the peer hasn't read, in bytes of frames. Its bounds have the
// proportions of the real ones, and are as small as what is sent here: Plan.Queue bytes in the queue, beyond which the
// connection ends; a sixteenth of that, from which on no requests are forwarded; and as much in the system's buffers.
// The queue is written batch by batch. One that the buffers don't take within writeTimeout ends the connection, too.
type waiting struct {
	l     *link
	peer  *life
	sent  int // in the system's buffers, or under way
	batch int // of which a part is in them
	queue int
	count int // of batches
}

const (
	queueShare   = 16
	frameShare   = 64 // a frame counts for no more than that part of the queue, as the largest append message
	frameHead    = 5
	writeTimeout = 5 * second
)

// room reports whether requests may be forwarded.
func (q *waiting) room() bool { return q.most() == 0 || q.queue < q.most()/queueShare }

func (q *waiting) most() int {
	if q == nil {
		return 0
	}
	return q.l.w.plan.Queue
}

// add queues a frame and returns for how many bytes it counts. It returns false if the frame ends the connection.
func (q *waiting) add(kind quorum.FrameKind, payload []byte) (n int, ok bool) {
	if q.most() == 0 {
		return 0, true
	}
	w := q.l.w
	if kind == quorum.FrameForward && !q.room() {
		w.fail("server %d forwards requests to server %d while the queue has no room for them", q.l.from.id, q.l.to.id)
	}
	n = min(len(payload)+frameHead, q.most()/frameShare)
	if q.queue+n > q.most() {
		w.stats.Overfull++
		q.end()
		return 0, false
	}
	q.queue += n
	q.write()
	return n, true
}

// write moves what the system's buffers take.
func (q *waiting) write() {
	for {
		n := min(q.batch, q.most()/queueShare-q.sent)
		q.batch, q.sent = q.batch-n, q.sent+n
		if q.batch > 0 || q.queue == 0 {
			return
		}
		q.batch, q.queue = q.queue, 0
		q.count++
		if count := q.count; q.sent+q.batch > q.most()/queueShare {
			q.l.w.after(writeTimeout, func() {
				if q.count == count && q.batch > 0 && q.l.waiting == q && q.l.up {
					q.l.w.stats.Unwritten++
					q.end()
				}
			})
		}
	}
}

// read notes that the peer has read n bytes.
func (q *waiting) read(n int) {
	q.sent -= n
	q.write()
}

// end ends the connection.
func (q *waiting) end() {
	w := q.l.w
	w.lastFault = max(w.lastFault, w.now+second)
	q.l.lose(q.peer)
}

// cut returns what still arrives of the segments under way when the connection ends: only what the system's buffers
// hold, and perhaps not all of that. A frame of which a part is lost isn't heard.
func (q *waiting) cut(segments []segment) []segment {
	if q.most() == 0 {
		return segments
	}
	written, bytes := 0, 0
	for _, s := range segments {
		if bytes += s.bytes; bytes > q.sent {
			break
		}
		written++
	}
	if chance(q.l.w.queueDice, 50) {
		written = q.l.w.queueDice.IntN(written + 1)
	}
	if written < len(segments) {
		q.l.w.stats.Torn++
	}
	return segments[:written]
}
