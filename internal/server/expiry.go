package server

import "time"

// expiries ends things after a time: sessions, connections, identities, containers and znodes with a time to live.
type expiries struct{ *engine }

// watch does the work that depends on time: it ends silent sessions and, once a tick, expires identities, closes
// connections with overdue requests, and checks that there is a quorum and that the leader answers.
func (x expiries) watch() {
	tick, expire := time.NewTicker(x.opt.Tick), time.NewTicker(x.opt.ExpireInterval())
	defer tick.Stop()
	defer expire.Stop()
	last := x.now() / 1e6
	for {
		select {
		case <-x.closing:
			return
		case <-expire.C:
			now := x.now() / 1e6
			x.replica.Expire(now, last)
			last = now
		case <-tick.C:
			now := x.now() / 1e6
			x.replica.ExpireIdentities(time.Now().UnixNano())
			x.replica.EndOverdue(x.now())
			x.replica.CheckQuorum(now, x.opt.Patience.Milliseconds())
			unanswered := time.Duration(x.peer.Status().Unanswered) * raftTick
			x.replica.CheckReach(unanswered.Milliseconds(), x.opt.Patience.Milliseconds())
		}
	}
}

// reap removes containers and znodes whose time to live is over, at no more than ReapPerMinute.
func (x expiries) reap() {
	neverUsed := x.opt.ReapNeverUsed.Milliseconds()
	space := time.Minute / time.Duration(max(1, x.opt.ReapPerMinute))
	for x.pause(x.opt.ReapInterval) {
		var cursor uint32
		for first := true; first || cursor != 0; first = false {
			var paths []string
			paths, cursor = x.replica.Reapable(cursor, neverUsed)
			for _, path := range paths {
				x.replica.Reap(path, neverUsed)
				if !x.pause(space) {
					return
				}
			}
		}
	}
}
