package replica

// Clock returns this server's time, ms since 1970.
func (r *Replica) Clock() int64 { return r.wall() }

// Correct adds ms to this server's time while it leads: most of the other voters say
// that its clock is wrong.
func (r *Replica) Correct(ms int64) {
	r.correction.Store(ms)
	if ms != 0 {
		r.log.Error("this server leads and its clock is not that of most others: it stamps by theirs; set the clock, and keep it by NTP", "wrongByMs", -ms)
	} else {
		r.log.Info("this leader's clock is that of most others again")
	}
}

// stamp returns the time of a batch.
func (r *Replica) stamp() int64 { return r.wall() + r.correction.Load() }

// noteTime tells the operator when the log has set the time back.
func (r *Replica) noteTime(before int64) {
	if now := r.tree.Time(); now < before {
		r.meters.timeSetBack.Inc()
		r.log.Warn("a leader's clock had run ahead: the ensemble's time is set back to that of most servers", "byMs", before-now)
	}
}
