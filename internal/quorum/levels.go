package quorum

import pb "go.etcd.io/raft/v3/raftpb"

// Feature levels let servers of different versions run together. What the log may
// hold, and what applying it computes, depends on the level in force, which is part
// of the replicated state (docs/decisions/011).
//
//   - Each server announces the highest level it knows on each connection it accepts,
//     in the direction that otherwise carries nothing. The first version announces
//     nothing and ignores what arrives there, so it counts as level 1.
//   - The leader tells its state machine the highest level that all members know,
//     voters and observers, while it is connected to all of them. The state machine
//     raises the level in force by an entry of the log. An ensemble is founded with the highest
//     level that its founders know, even if other servers of its server lines aren't up yet.
//   - A leader sends no entries and no snapshot to a server that doesn't know the level
//     in force, and no server lets such a server join. Its data stays as it is until the
//     server is upgraded.
//
// A joining server sends its level in its hello, in the lower half of the cluster field.

const (
	// LevelFirst is the level of a server that announces none.
	LevelFirst = 1
	// levelTicks is the pause between two checks of the members' levels.
	levelTicks = 4
)

// levels holds what a Loop knows about the members' feature levels.
type levels struct {
	*view

	inForce  uint32
	founded  uint32               // the founders' level, if this server has just founded the group with them
	known    map[uint64]uint32    // announced on the present connection
	frames   map[uint64]FrameKind // announced with it: the highest kind of frame that the peer knows
	rules    map[uint64][]byte    // announced on the present connection (rules.go)
	outdated map[uint64]int       // checks in a row at which a connected member's level was too low
}

// announced records a peer's level and the highest kind of frame that it knows, or 0 for a new connection, before any
// announcement.
func (v *levels) announced(id uint64, level uint32, frames FrameKind) {
	v.known[id], v.frames[id] = level, frames
}

// LevelInForce returns the feature level in force.
func (l *Loop) LevelInForce() uint32 { return l.levels.inForce }

// of returns the highest level that a peer knows, as far as this server has heard.
func (v *levels) of(id uint64) uint32 { return max(v.known[id], LevelFirst) }

// tick checks whether the level can be raised.
func (v *levels) tick() {
	v.inForce, _ = v.state.Levels()
	if v.ticks%levelTicks == 0 && v.node.IsLeader() {
		v.state.Supported(v.supported())
		v.state.Announced(v.announcements())
		v.complain()
	}
}

// outdatedLooks is the number of checks in a row at which a member's level must be too low
// before the leader logs it: the member's announcement may still be on the way.
const outdatedLooks = 5

// complain logs which connected members don't know the level in force.
func (v *levels) complain() {
	for _, f := range v.node.Followers() {
		if level := v.of(f.ID); level >= v.inForce || !v.shell.Connected(f.ID) {
			delete(v.outdated, f.ID)
		} else if v.outdated[f.ID]++; v.outdated[f.ID] == outdatedLooks {
			v.log.Warn("a server's version is too old for this ensemble: the server is sent nothing until it is upgraded, and its data stays as it is",
				"server", f.ID, "knows", level, "inForce", v.inForce)
		}
	}
}

// supported returns the highest level that all members know. It is never lower than the
// level in force, and equal to it if a member isn't connected. A group that has just been
// founded begins at its founders' level: the other members hold nothing, and join only if they
// know that level.
func (v *levels) supported() uint32 {
	inForce, level := v.state.Levels()
	if inForce <= LevelFirst && v.founded > inForce {
		return v.founded
	}
	for _, id := range v.others() {
		if !v.shell.Connected(id) {
			return inForce
		}
		level = min(level, v.of(id))
	}
	return max(level, inForce)
}

// withholds reports whether m must not be sent: it carries entries or a snapshot of a
// level that its receiver doesn't know.
func (v *levels) withholds(m *pb.Message) bool {
	if v.inForce <= LevelFirst || m.GetType() != pb.MsgApp && m.GetType() != pb.MsgSnap {
		return false
	}
	return v.known[m.GetTo()] < v.inForce
}
