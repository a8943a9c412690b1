// Package recovery makes a new ensemble of what one server still has, after a majority of
// the voters is lost for good.
//
// The new ensemble has an id of its own, so its servers and those of the old ensemble
// refuse each other. It begins with the state of the best survivor, the one whose log ends
// with the highest term and, of these, the highest index: raft's rule for leaders. That one
// has every write that any survivor has acknowledged (docs/decisions/041-lost-quorum.md).
// Its whole log is applied, the part included that isn't known to be committed: a write
// in it may have been acknowledged by servers that are gone.
package recovery
