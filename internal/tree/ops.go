package tree

import "github.com/zooid-project/zooid/jute"

// The internal operations of the log, in addition to jute.OpCreateSession, jute.OpCloseSession and
// jute.OpDeleteContainer.
const (
	OpAttach   jute.Op = -20 // body: buffer password, int timeout in ms
	OpExpire   jute.Op = -21 // body: long term of the requesting leader
	OpSettings jute.Op = -22 // body: Settings
	OpMembers  jute.Op = -23 // body: the membership text that a new ensemble begins with
	OpEnter    jute.Op = -24 // body: see AppendEnter; Seq is the sequence in the entrance

	// From feature level 2 on.
	OpSecret jute.Op = -25 // body: the SecretSize bytes that key the hashes
	OpChange jute.Op = -26 // body: see AppendChange

	// OpRestore is sent in a session, but clients can't send it.
	OpRestore jute.Op = -27 // body: see AppendRestore

	// From feature level 3 on.
	OpLineage jute.Op = -28 // body: long lineage, not 0
)

// ops is the table of the log's internal operations, in the order of their codes.
var ops = [...]struct {
	op    jute.Op
	name  string
	level int32 // the lowest feature level at which the log may have it
}{
	{OpAttach, "attach", 1},
	{OpExpire, "expireSession", 1},
	{OpSettings, "settings", 1},
	{OpMembers, "members", 1},
	{OpEnter, "enter", 1},
	{OpSecret, "secret", 2},
	{OpChange, "changeMembers", levelStaged},
	{OpRestore, "replace", 2},
	{OpLineage, "lineage", levelLineage},
}

// OpName returns the name of an operation of the log.
func OpName(op jute.Op) string {
	if i := OpAttach - op; i >= 0 && int(i) < len(ops) {
		return ops[i].name
	}
	return op.String()
}

// levelRestores is the lowest feature level at which servers accept new OpRestore requests and new policies. Both were
// added to level 2 after a version had already implemented level 2 without them: that version stops at an OpRestore,
// and treats the policy's znode like any other. Logs of later versions may have both at level 2, so apply evaluates
// them from level 2 on, as those versions did. Only Admits requires the higher level.
const levelRestores = 3

// Admits reports whether servers may put a request in the log at a feature level. It never admits an operation that
// LevelOf excludes, but a log may have requests of earlier versions that it no longer admits. body is the request's
// body; nil stands for a harmless one.
func Admits(level int32, op jute.Op, body []byte) bool {
	needs := LevelOf(op)
	switch {
	case needs == 0 || needs > level:
		return false
	case level >= levelRestores:
		return true
	}
	return op != OpRestore && !setsRules(op, body)
}

// LevelOf returns the lowest feature level at which the log may have an operation, or 0 if this version doesn't know
// the operation. An entry with an operation beyond the level in force stops the replica: if it skipped the operation,
// replicas would diverge. So servers refuse such requests before they reach the log.
func LevelOf(op jute.Op) int32 {
	if i := OpAttach - op; i >= 0 && int(i) < len(ops) {
		return ops[i].level
	}
	if op.IsWrite() { // all of these are as old as the log; TestLevelOf checks that
		return 1
	}
	return 0
}
