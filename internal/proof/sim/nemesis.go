package sim

import (
	"slices"

	"github.com/zooid-project/zooid/internal/storage"
)

// holds are the faults that keep a server from working, which is judged by World.held.
var holds = []Kind{HungDisk, SlowDisk, LongApply}

// inflict starts a fault and schedules its end.
func (w *World) inflict(f Fault) {
	s, other := w.servers[f.Server-1], w.servers[f.Other-1]
	if !w.possible(f, s) {
		return
	}
	w.stats.Faults[f.Kind]++
	w.logger(0).Info("fault", "kind", f.Kind, "server", f.Server, "other", f.Other, "for", f.Dur, "arg", f.Arg)
	if !slices.Contains(holds, f.Kind) {
		w.lastFault = max(w.lastFault, w.now+f.Dur+f.aftermath())
	}
	switch f.Kind {
	case Crash:
		s.kill(f.Dur)
	case Power:
		s.unplug(f.Arg, f.Dur)
	case CrashAll:
		for _, s := range w.servers {
			s.kill(f.Dur)
		}
	case PowerAll:
		for _, s := range w.servers {
			s.unplug(f.Arg, f.Dur)
		}
	case Restart:
		s.restart()
	case Transfer:
		w.transfer()
	case Poison:
		w.armed = append(w.armed, f)
	case Restore:
		w.restore(s)
	case Diverge:
		s.life.twisted = true
	case Upgrade:
		s.upgrade(f.Arg == 1)
	case Program:
		s.changeProgram(int(f.Arg), f.Dur)
	case Pause:
		s.pause(f.Dur)
	case Rot:
		s.end(false)
		s.disk.reboot()
		s.disk.rot()
		w.after(f.Dur, s.start)
		w.after(f.Dur+replacePause, s.replace)
	case Lie:
		w.lie(s, f)
	case SlowDisk:
		s.slowDown(f.Arg*millisecond, f.Dur)
	case HungDisk:
		s.hang(f.Arg, f.Dur)
	case LongApply:
		s.weigh(f.Arg * millisecond)
	case DiskError:
		s.disk.errorIn = int(f.Arg)
	case DiskFull:
		s.fill(f.Arg, f.Dur)
	case LowDisk:
		s.fill(w.plan.Refuse+f.Arg, f.Dur)
	case Wipe:
		s.wipe()
		w.after(f.Dur, s.start)
	case LostMajority:
		w.loseMajority(f)
	case Double:
		w.double = append(w.double, int(f.Arg))
		i := len(w.double) - 1
		w.after(f.Dur, func() { w.double[i] = 0 })
	case Join, Leave, Role, Swap:
		w.reconfigure(f, s)
	case DuplicateID:
		w.duplicateID(s, f.Dur)
	case Frozen:
		w.clients[f.Server%w.plan.Clients].freeze(f.Dur)
	case Clock:
		s.offset += f.Arg * millisecond
	case Dropped:
		if s.life != nil {
			for _, k := range append([]*conn(nil), s.life.conns...) {
				k.close()
			}
		}
	case Loss:
		w.loss = append(w.loss, int(f.Arg))
		i := len(w.loss) - 1
		w.after(f.Dur, func() { w.loss[i] = 0 })
	case Reset:
		if f.Dur > 0 {
			w.swallow(s, other, f.Dur)
			return
		}
		w.reset(s, other)
	case Cut, OneWay, Isolate, Ring, Halves, ClientCut, Flap:
		w.partition(f, s, other)
	default:
		w.mishap(f, s, other)
	}
}

// transfer has the leader hand leadership over.
func (w *World) transfer() {
	for _, s := range w.servers {
		if l := s.life; l != nil && l.loop != nil && !s.paused() {
			l.protect(func() { l.loop.TransferLeadership() })
			l.stepSoon()
		}
	}
}

// aftermath returns how long after a fault all servers have a leader and connections again.
func (f *Fault) aftermath() int64 {
	switch f.Kind {
	case Reset, Dropped, Clock:
		return second / 2
	case LostMajority:
		return 40 * second
	case Power, PowerAll, Lie: // they wait for their call, and are silent
		return 10 * second
	case Rot, Wipe, Diverge, Join, Leave, Role, Swap, DuplicateID:
		return 20 * second
	case Alone, Begin, Copy, PutBack, Foreign, Order, Off, NoName, Unproven, Stranger, Astray, Doom:
		return 20 * second
	}
	return 3 * second
}

// unless ends a fault after a while, except if all faults have been ended by then.
func (w *World) unless(d int64, end func()) {
	w.after(d, func() {
		if !w.healed {
			end()
		}
	})
}

// partition cuts paths of the network.
func (w *World) partition(f Fault, s, other *host) {
	both := func(a, b int) { w.cutWay(a, b, f.Dur); w.cutWay(b, a, f.Dur) }
	switch f.Kind {
	case Cut:
		both(s.index, other.index)
	case OneWay:
		for _, t := range w.servers {
			if t == other || f.Arg == toAll && t != s {
				w.cutWay(s.index, t.index, f.Dur)
			}
		}
	case Isolate:
		for _, t := range w.servers {
			if t != s {
				both(s.index, t.index)
			}
		}
	case Ring:
		n := len(w.servers)
		for i := range n {
			for j := range i {
				if d := i - j; d != 1 && d != n-1 {
					both(i+1, j+1)
				}
			}
		}
	case Halves:
		for _, a := range w.servers {
			for _, b := range w.servers {
				if a.id < b.id && (int(a.id)+f.Server)%2 != (int(b.id)+f.Server)%2 {
					both(a.index, b.index)
				}
			}
		}
	case ClientCut:
		both(0, s.index)
	case Flap:
		for at := int64(0); at < f.Dur; at += 400 * millisecond {
			w.unless(at, func() {
				w.cutWay(s.index, other.index, 200*millisecond)
				w.cutWay(other.index, s.index, 200*millisecond)
			})
		}
	default:
		panic("sim: unknown kind of fault " + string(f.Kind))
	}
}

// cutWay drops the packets from a to b for a while. Connections that stay
// silent for long may end meanwhile.
func (w *World) cutWay(a, b int, d int64) {
	if w.cuts[a][b]++; w.cuts[a][b] == 1 {
		w.cutFrom[a][b] = w.now
	}
	w.unless(d, func() {
		if w.cuts[a][b]--; w.cuts[a][b] == 0 {
			w.cutTo[a][b] = w.now
		}
	})
	if a == 0 || b == 0 || d < second || chance(w.faultDice, 50) {
		return
	}
	l := w.links[a][b]
	peer := l.peer
	w.after(between(w.faultDice, second/2, d), func() { l.lose(peer) })
}

// cutSince returns since when packets are lost from a to b or from b to a.
func (w *World) cutSince(a, b int) int64 {
	since := w.now
	for _, way := range [][2]int{{a, b}, {b, a}} {
		if w.cuts[way[0]][way[1]] > 0 {
			since = min(since, w.cutFrom[way[0]][way[1]])
		}
	}
	return since
}

// uncut reports whether nothing was lost between a and b since a time.
func (w *World) uncut(a, b int, since int64) bool {
	return !w.cut(a, b) && w.cutTo[a][b] < since && w.cutTo[b][a] < since
}

// reset ends the connections between two servers.
func (w *World) reset(a, b *host) {
	for _, l := range []*link{w.links[a.index][b.index], w.links[b.index][a.index]} {
		if chance(w.faultDice, 70) {
			l.lose(l.peer)
		}
	}
}

// swallow loses one server's data to another for a while. Then their connection ends, and
// none of that data has arrived.
func (w *World) swallow(a, b *host, d int64) {
	w.cutWay(a.index, b.index, d)
	l := w.links[a.index][b.index]
	w.unless(d, func() {
		if l.up {
			l.stream.dead = true
			l.lose(l.peer)
		}
	})
}

// kill ends the process and starts another one after a while.
func (s *host) kill(d int64) {
	if s.life == nil {
		return
	}
	s.end(false)
	s.disk.reboot()
	s.w.after(d, s.start)
}

// unplug turns the power off for a while, after so many file system calls
// (calls that change names, if negative) or, if they don't come, soon.
func (s *host) unplug(calls, d int64) {
	l := s.life
	if l == nil {
		return
	}
	off := func() {
		if s.life == l {
			s.lostPower()
		}
	}
	patience := powerPatience
	if s.disk.cutNames = calls < 0; calls < 0 {
		calls, patience = -calls, 10*powerPatience
	}
	s.w.after(d+patience, s.start)
	if calls == 0 {
		off()
		return
	}
	s.disk.cutIn = int(calls)
	s.w.after(patience, off)
}

// powerPatience is how long a power cut waits for its call.
const powerPatience = 300 * millisecond

// pause stops the process for a while.
func (s *host) pause(d int64) {
	if s.pausing++; s.pausing == 1 {
		s.pauses = append(s.pauses, span{s.w.now, s.w.now})
	}
	s.w.unless(d, s.resume)
}

// span is an interval of time.
type span struct{ from, to int64 }

// stoodStill returns how long the server has been paused, or its loop has stood, since a time. It must not be paused
// now.
func (s *host) stoodStill(since int64) (d int64) {
	for _, p := range s.pauses {
		if to := min(p.to, s.w.now); to > since {
			d += max(to-max(p.from, since), 0)
			since = to
		}
	}
	return d
}

// resume lets the process continue, starting with the data that arrived meanwhile.
func (s *host) resume() {
	if s.pausing--; s.pausing > 0 {
		return
	}
	s.pauses[len(s.pauses)-1].to = s.w.now
	held := s.held
	s.held = nil
	for _, run := range held {
		run()
	}
}

// restart acts as an operator: the server transfers leadership, stops and is started
// again.
func (s *host) restart() {
	l := s.life
	if l == nil || l.loop == nil || s.paused() {
		return
	}
	stop := func() {
		if s.life != l {
			return
		}
		if !l.protect(func() {
			if err := l.dir.Close(); err != nil && !s.disk.failing(err) {
				s.w.fail("server %d can't close its data directory: %v", s.id, err)
			}
		}) {
			return
		}
		s.end(false)
		s.disk.reboot()
		s.w.after(restartPause, s.start)
	}
	wait := int64(0)
	if l.protect(func() {
		if l.loop.TransferLeadership() {
			wait = s.local(leaveTicks * raftTick)
		}
	}) {
		l.stepSoon()
		s.w.after(wait, stop)
	}
}

// leaveTicks is how long, in raft ticks, a leader waits for a successor before it stops.
const leaveTicks = 20

// fill leaves little room on the disk for a while.
func (s *host) fill(room, d int64) {
	used := usedBytes(s.disk.fs)
	s.disk.full = true
	s.disk.fs.Budget = used + uint64(max(room, 0))
	s.w.after(d, func() { s.disk.fs.Budget = 0 })
}

// usedBytes returns the total size of all files.
func usedBytes(fs *storage.MemFS) uint64 {
	was := fs.Budget
	fs.Budget = 1 << 40
	free, total, err := fs.Free(dataDir)
	fs.Budget = was
	if err != nil {
		return 0
	}
	return total - free
}

// lie makes fsync lie for a while. Then the power goes off, once the ensemble doesn't
// need the data that the disk loses: meanwhile the server may have become one of two
// voters.
func (w *World) lie(s *host, f Fault) {
	s.disk.lied = true
	s.disk.fs.LieAboutSync = true
	var pull func()
	pull = func() {
		switch {
		case w.healed:
		case w.spares(s):
			s.unplug(f.Arg, second)
			w.after(powerPatience, func() { s.disk.fs.LieAboutSync = false })
		default:
			w.after(second, pull)
		}
	}
	w.after(f.Dur, pull)
	w.after(f.Dur+replacePause, s.replace)
}
