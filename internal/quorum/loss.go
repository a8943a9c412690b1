package quorum

// A Loss is why a server has no leader any more.
type Loss string

// The losses.
const (
	LostHandedOver Loss = "handed_over" // this server led, and had another one lead
	LostQuorum     Loss = "lost_quorum" // this server led, and no majority of voters answered it
	LostConnection Loss = "connection"  // the leader's connection ended: its process has, most likely
	LostSilent     Loss = "silent"      // nothing was heard of the leader for an election timeout
	LostElection   Loss = "election"    // a voter asked for votes in a newer term
)

// Losses returns all there are.
func Losses() []string {
	return []string{string(LostHandedOver), string(LostQuorum), string(LostConnection), string(LostSilent), string(LostElection)}
}

// lossOf returns why was is no longer what is; dropped says that the leader's connection ended, handing that this
// server has asked another one to lead.
func lossOf(was, is Leadership, dropped, handing bool) Loss {
	switch {
	case was.Leader == 0 || is.Leader == was.Leader && is.Term == was.Term:
		return ""
	case was.IsLeader && handing:
		return LostHandedOver
	case dropped:
		return LostConnection
	case is.Term > was.Term:
		return LostElection
	case was.IsLeader:
		return LostQuorum
	}
	return LostSilent
}
