package quorum

// A Loss is the reason why a server lost its leader.
type Loss string

// The losses.
const (
	LostHandedOver Loss = "handed_over" // this server led and handed leadership over
	LostQuorum     Loss = "lost_quorum" // this server led, and no majority of the voters answered it
	LostConnection Loss = "connection"  // the leader's connection ended, most likely with its process
	LostSilent     Loss = "silent"      // the leader was silent for an election timeout
	LostElection   Loss = "election"    // a voter asked for votes in a newer term
)

// Losses returns all possible values of Loss.
func Losses() []string {
	return []string{
		string(LostHandedOver), string(LostQuorum), string(LostConnection), string(LostSilent), string(LostElection),
	}
}

// lossOf returns why the leader in was lost when is follows, or "" if none was lost. dropped says that the leader's
// connection ended, and handing that this server has asked another one to lead.
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
