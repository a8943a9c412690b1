package sim

import (
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
)

// The operations that a disk doesn't finish while it hangs: the Arg of a HungDisk. Reads, writes to
// the cache, and changes of names work in all cases.
const (
	hangsLog       = iota // syncs of the log
	hangsSyncs            // all syncs
	hangsSnapshots        // syncs of all other files
	hangsAgain            // syncs of the log, of which one is finished now and then
	hangModes
)

// A hung disk models the hangs of a disk. The server's loop continues while a write of the log hangs, as on a real
// server (peer.Peer): it hears, ticks and reports. Its files stay as before the write until the disk continues, and if
// the process ends before that, the write is lost. If another file's sync hangs, its waiters stand, including the loop
// when it installs a snapshot.
type hung struct {
	log      int      // faults that let no write of the log be finished
	relents  bool     // one is finished all the same
	relented int64    // when that last happened, or the hang was over
	logTo    int64    // when the log's syncs are finished again
	files    int      // faults that let no sync of another file be finished
	filesTo  int64    // when they are finished again
	beside   []func() // work besides the loop that waits for the disk
}

// hang lets the disk hang for a while.
func (s *host) hang(mode, d int64) {
	h, w := &s.disk.hung, s.w
	if mode != hangsSnapshots {
		h.log++
		h.logTo = max(h.logTo, w.now+d)
		w.held(s, h.logTo)
		w.unless(d, func() {
			if h.log = max(h.log-1, 0); h.log == 0 { // it may have been replaced meanwhile
				h.relented = w.now
			}
			s.goesOn()
		})
	}
	if mode == hangsSyncs || mode == hangsSnapshots {
		h.files++
		h.filesTo = max(h.filesTo, w.now+d)
		if w.now < s.wantsTo { // the snapshot that it waits for isn't synced before that
			s.wantsTo = h.filesTo
			w.held(s, s.wantsTo)
		}
		w.unless(d, func() { h.files = max(h.files-1, 0); s.goesOn() })
	}
	if mode == hangsAgain {
		for at := between(w.faultDice, 0, 3*second); at < d; at += between(w.faultDice, second/10, 3*second) {
			w.unless(at, func() {
				h.relents = h.log > 0
				s.goesOn()
			})
		}
	}
}

// slowDown lets each sync take longer for a while.
func (s *host) slowDown(by, d int64) {
	s.disk.slow += by
	s.disk.slowTo = max(s.disk.slowTo, s.w.now+d)
	s.w.held(s, s.w.now+d+2*by+second) // syncs wait for each other
	s.w.unless(d, func() { s.disk.slow = max(s.disk.slow-by, 0) })
}

// goesOn does the work that has waited for the disk, as far as the disk continues.
func (s *host) goesOn() {
	h := &s.disk.hung
	if s.life != nil && (h.log == 0 || h.relents) {
		s.life.stepSoon()
	}
	if h.files == 0 {
		beside := h.beside
		h.beside = nil
		for _, run := range beside {
			run()
		}
	}
}

// whenSynced calls run now or, if syncs of files hang, when the disk continues.
func (s *host) whenSynced(run func()) {
	if h := &s.disk.hung; h.files > 0 {
		h.beside = append(h.beside, run)
		return
	}
	run()
}

// waits returns how long a sync in the present step hangs.
func (d *disk) waits(c storage.Call) int64 {
	h := &d.hung
	switch ofLog := strings.HasSuffix(c.Name, ".log"); {
	case d.appending:
		return 0 // another goroutine waits for it, or it has waited
	case ofLog && h.log > 0:
		return max(h.logTo-d.w.now-d.life.elapsed, 0)
	case !ofLog && h.files > 0:
		return max(h.filesTo-d.w.now-d.life.elapsed, 0)
	}
	return 0
}

// write makes the writes of the log and the calls of the state machine that are due, or begins one that takes longer
// than a tick.
func (l *life) write() {
	d := &l.s.disk
	for {
		if l.pending != nil {
			disk := l.pending.Appends()
			if disk && d.hung.log > 0 && !d.hung.relents || l.w.now < l.writeAt {
				l.loop.Advance() // nothing else is due before this is over
				return
			}
			if !disk {
				l.pending.Do()
				l.pending = nil
				l.loop.Done()
				continue
			}
			if d.hung.relents {
				d.hung.relented = l.w.now
			}
			d.hung.relents, d.waited, d.appending = false, true, true
			d.wrote = l.logged()
			l.pending.Do()
			d.waited, d.appending, l.pending = false, false, nil
			d.slowUntil = l.w.now + l.elapsed
			l.loop.Done()
		}
		w := l.loop.Advance()
		switch {
		case w == nil:
			return
		case !w.Appends() && l.w.now > l.w.plan.End && chance(l.w.callDice, l.w.plan.Calls):
			l.pending, l.pendingAt = w, l.w.now
			l.writeAt = l.w.now + between(l.w.callDice, raftTick/2, 2*raftTick)
			l.w.at(l.writeAt, l.stepSoon)
		case w.Appends() && (d.hung.log > 0 || d.slow >= raftTick):
			l.pending, l.pendingAt, l.writeAt = w, l.w.now, l.w.now+d.slow
			if d.slow > 0 {
				l.w.after(d.slow, l.stepSoon)
			}
		default:
			if w.Appends() {
				d.wrote = l.logged()
			}
			d.appending = true
			w.Do()
			d.appending = false
			l.loop.Done()
		}
	}
}

// logged returns the last entry that is in the log or being written to it, 0 if that can't be told.
func (l *life) logged() uint64 {
	last, err := l.dir.Log().LastIndex()
	if err != nil {
		return 0
	}
	return last
}

// stallMost is how long a write of the log may be under way before the process ends (fsync.stallSeconds).
const stallMost = 20 * second

// giveUp ends a process whose write has been under way for too long. Its supervisor starts it again, which
// succeeds once the disk goes on.
func (l *life) giveUp() {
	s, w := l.s, l.w
	if l.pending == nil || w.now-l.pendingAt < stallMost {
		return
	}
	w.stats.GivenUp++
	s.end(false)
	s.disk.reboot()
	after := max(s.disk.hung.logTo-w.now, 0) + restartPause
	w.after(after, s.start)
	w.held(s, w.now+after+w.plan.Load+3*second)
}

// without reports whether an ensemble of at least three servers has a majority of voters that work, without s:
// that s doesn't is then no excuse for effects on clients that aren't connected to it.
func (w *World) without(s *host) bool {
	able := 0
	for _, id := range w.voters {
		if m := w.servers[id-1]; m != s && m.works() {
			able++
		}
	}
	return len(w.voters) >= 3 && len(w.leaving) == 0 && able > len(w.voters)/2
}

// works reports whether a server's process runs and knows its ensemble, its loop turns, its disk finishes writes in
// time, and it doesn't wait for a snapshot that its disk doesn't finish.
func (s *host) works() bool {
	return s.life != nil && s.life.rep != nil && s.w.now >= s.wantsTo && !s.paused() && !s.stands() &&
		s.life.pending == nil && s.disk.hung.log == 0 && s.disk.slow < raftTick
}

// stands reports whether the server's loop stands, or is about to, because of a long Apply or because it loads a
// snapshot.
func (s *host) stands() bool { return s.drag > 0 || s.w.now < s.stoodTo }

// held notes that a server doesn't work until a time.
func (w *World) held(s *host, to int64) {
	w.heldAt = w.now
	s.heldTo = max(s.heldTo, to)
	if !w.without(s) {
		w.lastHeld = max(w.lastHeld, to+3*second)
	}
}
