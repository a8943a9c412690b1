package quorum

import "slices"

// A state machine may compute by rules that are compiled in or configured, and that some servers may lack
// (StateMachine.Rules). Each server announces its rules with its feature level, and a leader tells its state machine
// what the members have announced. The state machine puts a rule in force by an entry of the log, and a server that
// doesn't have the rule stops there; announcements only prevent that. Servers that know no rules announce nothing, and
// count as not heard.

// An Announcement is what a member has announced about its rules.
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

// others returns the sorted ids of all members but this server: voters, observers, and future members.
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
