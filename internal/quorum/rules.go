package quorum

import "slices"

// A state machine may compute by rules that are compiled into the program, or configured, and that servers
// may have or not (StateMachine.Rules). Each server announces its rules beside its feature level, and a
// leader tells its state machine what the members have announced. The state machine puts a rule in force by an
// entry of the log, and a server that doesn't have it stops there: announcements only keep that from
// happening. Servers that know no rules announce nothing, and count as not heard.

// An Announcement is what a member has announced of its rules.
type Announcement struct {
	ID    uint64
	Heard bool   // the member is connected, and has announced its rules on that connection
	Rules []byte // StateMachine.Rules of the member
}

// announcements returns what the other members have announced: those that count for the feature level.
func (v *levels) announcements() []Announcement {
	var all []Announcement
	for _, id := range v.others() {
		rules, heard := v.rules[id]
		all = append(all, Announcement{ID: id, Heard: heard && v.shell.Connected(id), Rules: rules})
	}
	return all
}

// others returns the ids of all members but this server, sorted: voters, observers, and the servers that are
// to be members.
func (v *levels) others() []uint64 {
	ids := slices.Concat(v.conf.GetVoters(), v.conf.GetVotersOutgoing(), v.conf.GetLearners(), v.conf.GetLearnersNext())
	wanted := v.wanted
	if len(wanted) == 0 {
		wanted = v.configured
	}
	for _, m := range wanted {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id uint64) bool { return id == v.id })
}
