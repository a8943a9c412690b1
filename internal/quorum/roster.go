package quorum

import (
	"bytes"
	"slices"
)

// The state machine may name a membership while the votes of a former one still count: until
// raft's membership has followed, and until every server has heard of it. Meanwhile a server
// needs the former voters, but the state machine knows the addresses of named members only.
// So a server remembers the addresses of the servers that are still in raft's membership but
// no longer named. They survive a restart, after which the log may hold the newest membership
// alone.
type roster struct {
	former []Member // not named any more; raft's membership may hold them
	kept   []byte   // the file's content
	retry  uint64   // tick before which the file isn't tried again after a failure
}

const (
	// rosterName is that of the kept file. It holds an introduction.
	rosterName = "peers"
	// rosterRetryTicks is the pause after a failure to write it.
	rosterRetryTicks = 200
)

// read loads the file. An unreadable file counts as missing.
func (r *roster) read(l *Loop) {
	var err error
	if r.kept, err = l.o.Dir.Kept(rosterName); err == nil {
		r.former, err = readIntroduction(r.kept)
	}
	if err != nil {
		r.kept = nil
		l.log.Warn("the addresses of former members can't be read; if one of them still has a vote, an operator has to name it in the configuration", "err", err)
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return m.ID == l.o.ID || isMember(l.o.Members, m.ID) })
}

// changed takes note that the membership decided on is another one than before.
func (r *roster) changed(l *Loop, before []Member) {
	named := l.membersNamed()
	for _, m := range before {
		if m.ID != l.o.ID && !isMember(r.former, m.ID) {
			r.former = append(r.former, m)
		}
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return isMember(named, m.ID) })
}

// introduced takes note of servers that this server has no address of and a peer has: a
// snapshot may have brought this one a membership of raft's that holds them.
func (r *roster) introduced(l *Loop, members []Member) {
	for _, m := range members {
		if contains(l.conf, m.ID) {
			r.former = append(r.former, m)
		}
	}
	r.keep(l)
}

// guest takes note of where a guest is.
func (r *roster) guest(l *Loop, m Member) {
	if !contains(l.conf, m.ID) {
		return
	}
	// It keeps its place, or guests that announce themselves in turn would have the file written each time.
	if i := slices.IndexFunc(r.former, func(f Member) bool { return f.ID == m.ID }); i >= 0 {
		r.former[i] = m
	} else {
		r.former = append(r.former, m)
	}
}

// keep forgets servers that have left raft's membership, and writes the file if the former
// members or the decided membership have changed. It does nothing until the entries that the
// log held at the start are applied, as raft's membership is an old one until then.
func (r *roster) keep(l *Loop) {
	if l.applied < l.known || l.ticks < r.retry {
		return
	}
	r.former = slices.DeleteFunc(r.former, func(m Member) bool { return !contains(l.conf, m.ID) })
	b := appendIntroduction(nil, l.membersKnown())
	if bytes.Equal(b, r.kept) {
		return
	}
	if err := l.o.Dir.Keep(rosterName, b); err != nil {
		r.retry = l.ticks + rosterRetryTicks
		l.log.Warn("the members' addresses could not be written; it is tried again", "err", err)
		return
	}
	r.kept = b
}

// Peers returns the servers to connect to at first: those of the configuration, and
// those that this server knew when it was stopped.
func (l *Loop) Peers() []Member { return slices.Concat(l.o.Members, l.roster.former) }
