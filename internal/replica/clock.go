package replica

// Clock returns this server's wall-clock time, in ms since 1970.
func (r *Replica) Clock() int64 { return r.wall() }

// Correct adds ms to this server's clock while it leads, because most of the other voters disagree
// with its clock.
func (r *Replica) Correct(ms int64) {
	r.correction.Store(ms)
	if ms != 0 {
		r.log.Error("this server leads and its clock is not that of most others: it stamps by theirs; set the clock, and keep it by NTP",
			"wrongByMs", -ms)
	} else {
		r.log.Info("this leader's clock is that of most others again")
	}
}

// stamp returns the time to stamp a batch with.
func (r *Replica) stamp() int64 { return r.wall() + r.correction.Load() }

// noteTime warns the operator when the log has set the ensemble's time back.
func (r *Replica) noteTime(before int64) {
	if now := r.tree.Time(); now < before {
		r.meters.timeSetBack.Inc()
		r.log.Warn("a leader's clock had run ahead: the ensemble's time is set back to that of most servers",
			"byMs", before-now)
	}
}
