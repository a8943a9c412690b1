package sim

import (
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// The clocks of a server. Each is a goroutine of its own in the real one: the watchdog alone waits neither for the loop
// nor for the replica's lock.

// tick is the raft clock. A paused process misses ticks, and gets one when it
// resumes.
func (l *life) tick() {
	l.w.after(l.s.local(raftTick), func() {
		if l.ended {
			return
		}
		l.s.awake(func() {
			if !l.ended {
				l.ticks = 1
				l.stepSoon()
				l.tick()
			}
		})
	})
}

// expire is the clock that ends sessions.
func (l *life) expire() {
	l.w.after(l.s.local(int64(replica.Serving{Tick: time.Duration(l.w.plan.Tick)}.ExpireInterval())), func() {
		l.s.awake(func() {
			if l.ended {
				return
			}
			now := l.s.monotonic() / millisecond
			l.locked(func() {
				l.protect(func() { l.endSilentAt(now) })
				l.expire()
			})
		})
	})
}

// watchdogPause is as long as that of the server's watchdog.
const watchdogPause = 500 * millisecond

// watch closes the connections of clients whose sessions are in an unknown state, even if the loop stands or the
// replica is locked.
func (l *life) watch() {
	l.w.after(l.s.local(watchdogPause), func() {
		l.s.awake(func() {
			if !l.ended {
				l.protect(func() { l.rep.LetOutdatedGo(l.s.monotonic()) })
				l.watch()
			}
		})
	})
}

// look is the clock of the work done once a tick.
func (l *life) look() {
	l.w.after(l.s.local(l.w.plan.Tick), func() {
		l.s.awake(func() {
			if l.ended {
				return
			}
			l.locked(l.lookNow)
		})
	})
}

func (l *life) lookNow() {
	l.w.ledger.lags(l)
	l.w.ledger.leadsOn(l)
	l.w.ledger.outlives(l)
	l.w.ledger.serves(l)
	if l.giveUp(); l.ended {
		return
	}
	l.protect(func() {
		now := l.s.monotonic() / millisecond
		l.rep.EndOverdue(l.s.monotonic())
		l.rep.CheckQuorum(now, l.patience()/millisecond)
		l.rep.CheckReach(int64(l.loop.Status().Unanswered)*raftTick/millisecond, l.patience()/millisecond)
	})
	l.look()
}

// endSilent looks for sessions to end.
func (l *life) endSilent() { l.endSilentAt(l.s.monotonic() / millisecond) }

// endSilentAt is endSilent by a clock that was read before.
func (l *life) endSilentAt(now int64) {
	l.rep.Expire(now, l.expired)
	l.expired = now
}
