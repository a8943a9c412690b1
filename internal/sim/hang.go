package sim

import "github.com/zooid-project/zooid/jute"

// A disk that hangs finishes no write of the log. The server's loop goes on meanwhile, as on a real
// server (peer.Peer): it hears, ticks and reports. Its files are as before the write until the disk goes
// on, and if the process ends before that, the write is lost.

// hang lets the disk hang for a while.
func (s *host) hang(d int64) {
	s.disk.hung++
	s.w.unless(d, s.goesOn)
}

// goesOn ends a hang.
func (s *host) goesOn() {
	if s.disk.hung--; s.disk.hung > 0 {
		return
	}
	s.disk.hungTo = s.w.now
	if s.life != nil {
		s.life.stepSoon()
	}
}

// without reports whether an ensemble of at least three servers has a majority of members whose disks work,
// without s: that s hangs is then no excuse for what clients feel who aren't connected to it.
func (w *World) without(s *host) bool {
	members, able := w.members(), 0
	for _, m := range members {
		if m != s && m.disk.hung == 0 {
			able++
		}
	}
	return len(members) >= 3 && able > len(members)/2
}

// handOverPatience is how long a server may lead whose disk hangs, with nothing else in the way.
const handOverPatience = 3 * second

// leadsOn fails the World if a server leads on though it can't write and others could.
func (g *ledger) leadsOn(l *life) {
	w := l.w
	if l.pending == nil || l.s.disk.hung == 0 || !l.loop.IsLeader() || !w.without(l.s) {
		return
	}
	if d := w.now - max(l.pendingAt, w.lastFault); d > handOverPatience {
		w.fail("liveness: server %d has led for %d ms with a disk that hangs, with nothing else in the way", l.s.id,
			d/millisecond)
	}
}

// write makes the writes of the log that are due, or begins one that takes longer than a tick.
func (l *life) write() {
	d := &l.s.disk
	for {
		if l.pending != nil {
			if d.hung > 0 || l.w.now < l.writeAt {
				l.loop.Advance() // no other write is due before this one is over
				return
			}
			d.waited = true
			l.pending.Do()
			d.waited, l.pending = false, nil
			d.slowUntil = l.w.now + l.elapsed
			l.loop.Done()
		}
		w := l.loop.Advance()
		switch {
		case w == nil:
			return
		case w.Appends() && (d.hung > 0 || d.slow >= raftTick):
			l.pending, l.pendingAt, l.writeAt = w, l.w.now, l.w.now+d.slow
			if d.slow > 0 {
				l.w.after(d.slow, l.stepSoon)
			}
		default:
			w.Do()
			l.loop.Done()
		}
	}
}

// answerBound is how long a session may be answered after its end (X10), by a server's clock.
func answerBound(timeout int32) int64 { return max(int64(timeout)*millisecond/3, second) }

// answerSlack is what a message's way and a clock's rate add to answerBound.
const answerSlack = 20 * millisecond

// answers checks what a server wrote to a client, and had decided on at the time at: nothing of a session is
// answered long after the session's end was first applied anywhere (X10).
func (g *ledger) answers(k *conn, out []byte, at int64) {
	greeted := k.answered
	k.answered = true
	ended, over := g.ended[k.serving.Session()]
	if !over || k.c.readOnly || at <= ended+answerBound(k.serving.Timeout())+answerSlack {
		return
	}
	for d := jute.NewDecoder(out); d.Remaining() > 0; greeted = true {
		frame := d.Buffer()
		if !greeted || d.Err() != nil {
			continue
		}
		var h jute.ReplyHeader
		h.Decode(jute.NewDecoder(frame))
		if h.Xid != jute.XidNotification {
			k.w.fail("X10: server %d answers request %d of session %#x, with a timeout of %d ms, %d ms after the session's end",
				k.l.s.id, h.Xid, k.serving.Session(), k.serving.Timeout(), (at-ended)/millisecond)
			return
		}
	}
}
