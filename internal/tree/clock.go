package tree

// The tree's time comes from the clocks of its leaders. It doesn't go back when these differ a little. But a clock that
// is far ahead must not keep it in the future for years: all mtimes would be equal, and no TTL would expire. So from
// feature level 2 on, a batch that is more than timeBackMin behind the tree's time sets it back.

// timeBackMin is how many milliseconds a batch must be behind the tree's time to set it back. Servers' clocks differ by
// less, and a leader corrects its clock by those of the other servers.
const timeBackMin = 60_000

// advance moves the tree's time to that of a batch, at the feature level in force. ms is 0 for an entry without a time.
func (p *position) advance(ms int64, level int32) {
	switch {
	case ms >= p.time:
		p.time = ms
	case ms > 0 && level >= 2 && ms < p.time-timeBackMin:
		p.time, p.back = ms, ms
	}
}

// changed returns when a znode was last changed, for computing its idle time at time now. A znode whose last change is
// in the future counts as changed when the time was set back, so that its whole idle time starts there.
func (p *position) changed(n *node, now int64) int64 {
	if back := p.back; n.mtime > now && back != 0 {
		return back
	}
	return n.mtime
}
