package tree

// The tree's time is that of its leaders' clocks. It doesn't go back when leaders
// differ a little. But a clock that ran far ahead must not pin it for years: all
// mtimes would be equal, and no TTL would ever be over. So from feature level 2 on a
// batch that is more than timeBackMin behind sets the time back.

// timeBackMin is by how many milliseconds a batch must be behind the tree's time to set
// it back. Servers' clocks differ by less; leaders correct theirs by the others'.
const timeBackMin = 60_000

// advance moves the tree's time to that of a batch; 0 is that of an entry without one.
func (t *Tree) advance(ms int64) {
	p := &t.position
	switch {
	case ms >= p.time:
		p.time = ms
	case ms > 0 && t.settings.FeatureLevel >= 2 && ms < p.time-timeBackMin:
		p.time, p.back = ms, ms
	}
}

// changed returns when a znode was changed last, for how long it has been idle at now.
// A znode whose change lies in the future counts as changed when the time was set back: it
// lives on for its whole time from then.
func (t *Tree) changed(n *node, now int64) int64 {
	if back := t.position.back; n.mtime > now && back != 0 {
		return back
	}
	return n.mtime
}
