package replica

import "sync/atomic"

// A clock stamps this server's proposals.
type clock struct {
	*outside
	*state
	correction atomic.Int64 // of the leader's clock, ms
}

// Clock returns this server's wall-clock time, in ms since 1970.
func (c *clock) Clock() int64 { return c.wall() }

// Correct adds ms to this server's clock while it leads, because most of the other voters disagree
// with its clock.
func (c *clock) Correct(ms int64) {
	c.correction.Store(ms)
	if ms != 0 {
		c.log.Error("this leader's clock differs from those of most other servers, whose time it uses; set the clock, and keep it synchronized",
			"wrongByMs", -ms)
	} else {
		c.log.Info("this leader's clock is that of most others again")
	}
}

// stamp returns the time to stamp a batch with.
func (c *clock) stamp() int64 { return c.wall() + c.correction.Load() }

// noteTime warns the operator when the log has set the ensemble's time back.
func (c *clock) noteTime(before int64) {
	if now := c.tree.Time(); now < before {
		c.meters.timeSetBack.Inc()
		c.log.Warn("a leader's clock was ahead: the ensemble's time is set back to that of most servers", "byMs", before-now)
	}
}
