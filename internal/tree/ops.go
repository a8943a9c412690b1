package tree

import "github.com/zooid-project/zooid/jute"

// The internal operations of the log, in addition to jute.OpCreateSession, jute.OpCloseSession and
// jute.OpDeleteContainer.
const (
	OpAttach   jute.Op = -20 // body: buffer password, int timeout in ms
	OpExpire   jute.Op = -21 // body: long term of the requesting leader
	OpSettings jute.Op = -22 // body: Settings
	OpMembers  jute.Op = -23 // body: the membership text that a new ensemble begins with
	OpEnter    jute.Op = -24 // body: see AppendEnter; Seq is that of the entrance

	// From feature level 2 on.
	OpSecret jute.Op = -25 // body: the SecretSize bytes that key the hashes
	OpChange jute.Op = -26 // body: see AppendChange

	// OpReplace is sent in a session, but never by a client.
	OpReplace jute.Op = -27 // body: see AppendReplace

	// From feature level 3 on.
	OpLineage jute.Op = -28 // body: long lineage, not 0
)

// ops is the table of the log's internal operations, in the order of their codes.
var ops = [...]struct {
	op    jute.Op
	name  string
	level int32 // feature level from which on the log may hold it
}{
	{OpAttach, "attach", 1},
	{OpExpire, "expireSession", 1},
	{OpSettings, "settings", 1},
	{OpMembers, "members", 1},
	{OpEnter, "enter", 1},
	{OpSecret, "secret", 2},
	{OpChange, "changeMembers", levelStaged},
	{OpReplace, "replace", 2},
	{OpLineage, "lineage", levelLineage},
}

// OpName returns the name of an operation of the log.
func OpName(op jute.Op) string {
	if i := OpAttach - op; i >= 0 && int(i) < len(ops) {
		return ops[i].name
	}
	return op.String()
}

// levelRestores is the feature level from which on servers take new OpReplace requests and new
// policies. Both were added to level 2 after a version that knows level 2 had landed without them:
// that version stops at an OpReplace, and takes the policy's znode for one like any other. Logs of
// later versions hold both at level 2, so apply accepts and evaluates them from level 2 on, as
// those versions did. Only Admits asks for more.
const levelRestores = 3

// Admits reports whether servers may put a request in the log at a feature level. It never admits
// what LevelOf keeps out of the log, but a log may hold requests of earlier versions that it
// doesn't admit any more. body is the request's; nil stands for any harmless one.
func Admits(level int32, op jute.Op, body []byte) bool {
	needs := LevelOf(op)
	switch {
	case needs == 0 || needs > level:
		return false
	case level >= levelRestores:
		return true
	}
	return op != OpReplace && !setsRules(op, body)
}

// LevelOf returns the feature level from which on the log may hold an operation, or 0 for one that
// this version doesn't know. An entry with an operation beyond the level in force stops the
// replica: skipping it would let the replicas diverge. So servers refuse such requests before they
// reach the log.
func LevelOf(op jute.Op) int32 {
	if i := OpAttach - op; i >= 0 && int(i) < len(ops) {
		return ops[i].level
	}
	if op.IsWrite() { // all of these are as old as the log; TestLevelOf checks that
		return 1
	}
	return 0
}
