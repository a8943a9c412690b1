package sim

import "github.com/zooid-project/zooid/internal/quorum"

// An Apply that takes long holds the loop, and the replica's lock: all that need the lock wait, including the readers
// of connections, which have read the clock before. Loading a snapshot holds only the loop.

// weigh makes the next Apply take that much longer.
func (s *host) weigh(d int64) {
	if s.life != nil {
		s.drag = max(s.drag, d)
	}
}

// pass lets time pass in the present Apply, if it is to take long.
func (l *life) pass() {
	s, d := l.s, l.s.drag
	if d == 0 {
		return
	}
	s.drag, s.lagging = 0, true
	l.w.stats.LongApplies++
	l.elapsed += d
	s.ahead += d
	l.stand(l.w.now + l.elapsed)
	l.lockedTo = l.w.now + l.elapsed
	l.w.at(l.lockedTo, l.unlock)
}

// stand records that the loop stands until a time.
func (l *life) stand(to int64) {
	if to > l.s.stoodTo {
		l.s.pauses = append(l.s.pauses, span{max(l.w.now, l.s.stoodTo), to})
	}
	l.s.stoodTo = max(l.s.stoodTo, to)
	l.w.ledger.unreported(l, to)
	l.w.held(l.s, to)
}

// standsNoMore ends the time in which the loop stands, with the process.
func (s *host) standsNoMore() {
	s.stoodTo = min(s.stoodTo, s.w.now)
	for i := range s.pauses {
		p := &s.pauses[i]
		p.from, p.to = min(p.from, s.w.now), min(p.to, s.w.now)
	}
}

// turnedAt returns when the server's loop last began to turn between two times in which it stood, 0 if it never did.
func (s *host) turnedAt() (at int64) {
	for i, p := range s.pauses {
		if i+1 < len(s.pauses) && s.pauses[i+1].from > p.to {
			at = p.to
		}
	}
	return at
}

// locked calls run now or, if the replica is locked, when it isn't.
func (l *life) locked(run func()) {
	if l.w.now < l.lockedTo {
		l.waiting = append(l.waiting, run)
		return
	}
	run()
}

// unlock lets the waiters for the replica's lock continue.
func (l *life) unlock() {
	l.s.awake(func() {
		if l.w.now < l.lockedTo {
			return
		}
		waiting := l.waiting
		l.waiting = nil
		for _, run := range waiting {
			if !l.ended {
				run()
			}
		}
	})
}

// loads reports whether an event is a snapshot whose loading has only just begun: the loop stands until it is loaded,
// and handles it then.
func (l *life) loads(e *quorum.Event) bool {
	if e.Kind != quorum.EventSnapshot || l.loading == e.File {
		return false
	}
	d := l.w.plan.Load
	if h := &l.s.disk.hung; h.files > 0 { // it is synced first
		d = max(d, h.filesTo-l.w.now)
	}
	if d <= 0 {
		return false
	}
	l.loading = e.File
	l.w.stats.LongLoads++
	l.stand(l.w.now + d)
	l.busy = l.w.now + d
	return true
}

// unhurried does work of another goroutine than the loop's, which doesn't wait for it.
func (l *life) unhurried(work func()) {
	elapsed := l.elapsed
	l.protect(work)
	l.elapsed = elapsed
}
