package quorum

import (
	"bytes"
	"slices"
)

// A roster holds the addresses of servers that are still in raft's membership, but that the
// state machine no longer names.
//
// The state machine may name a membership while the votes of a former one still count, until
// raft's membership has followed and every server has heard of it. Meanwhile a server needs
// the former voters, but the state machine knows the addresses of named members only. The
// roster survives a restart, because the log may hold only the newest membership then.
type roster struct {
	*view
	levels *levels
	strays *strays

	former []Member // members no longer named that may be in raft's membership
	kept   []byte   // the file's content
	retry  uint64   // after a failure: tick before which the file isn't written again
	met    []uint64 // servers outside raft's membership that peers introduced since its last change
	full   bool     // the limit strangersMetMax was logged
}

const (
	// rosterName is the name of the kept file, which holds an introduction.
	rosterName = "peers"
	// rosterRetryTicks is the pause after a failure to write the file.
	rosterRetryTicks = 200
)

// read loads the file. An unreadable file counts as missing.
func (r *roster) read() {
	var err error
	if r.kept, err = r.dir.Kept(rosterName); err == nil {
		r.former, err = readIntroduction(r.kept)
	}
	if err != nil {
		r.kept = nil
		r.log.Warn("the addresses of former members can't be read; if one of them still has a vote, name it in the configuration",
			"err", err)
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return m.ID == r.id || isMember(r.configured, m.ID) })
}

// changed updates the former members when the decided membership has changed. before is
// the previous one.
func (r *roster) changed(before []Member) {
	named := r.membersNamed()
	for _, m := range before {
		if m.ID != r.id && !isMember(r.former, m.ID) {
			r.former = append(r.former, m)
		}
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return isMember(named, m.ID) })
	r.met = nil
}

// mayMeet reports whether this server connects to a server that a peer introduced.
func (r *roster) mayMeet(id uint64) bool {
	switch {
	case contains(r.conf, id) || slices.Contains(r.met, id):
		return true
	case len(r.met) < strangersMetMax:
		r.met = append(r.met, id)
		return true
	case !r.full:
		r.log.Warn("peers have named too many servers that aren't members; this server connects to no more of them until the membership changes",
			"server", id, "most", strangersMetMax)
		r.full = true
	}
	return false
}

// guest records the addresses of a guest.
func (r *roster) guest(m Member) {
	if !contains(r.conf, m.ID) {
		return
	}
	// The guest keeps its position. Otherwise, if several guests announce themselves in turn, each announcement would
	// write the file.
	if i := slices.IndexFunc(r.former, func(f Member) bool { return f.ID == m.ID }); i >= 0 {
		r.former[i] = m
	} else {
		r.former = append(r.former, m)
	}
}

// keep drops servers that have left raft's membership, and writes the file if the former
// members or the decided membership have changed. It does nothing until the entries that
// the log held at the start are applied, since raft's membership is outdated until then.
func (r *roster) keep() {
	if r.applied < r.atStart || r.ticks < r.retry {
		return
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return !contains(r.conf, m.ID) })
	b := appendIntroduction(nil, r.membersKnown())
	if bytes.Equal(b, r.kept) {
		return
	}
	if err := r.dir.Keep(rosterName, b); err != nil {
		r.retry = r.ticks + rosterRetryTicks
		r.log.Warn("the members' addresses could not be written; it will be tried again", "err", err)
		return
	}
	r.kept = b
}

// Peers returns the servers to connect to at the start: those of the configuration, and
// those in the roster of the last run.
func (l *Loop) Peers() []Member { return slices.Concat(l.configured, l.roster.former) }
