// Package newensemble makes a new ensemble from one server's data, after a majority of the voters is lost for good.
//
// The new ensemble has its own id, so its servers and those of the old ensemble reject each other. It starts with the
// state of the best survivor: the one whose log ends with the highest term and, among these, the highest index, which
// is raft's rule for leaders. That survivor has every write that any survivor has acknowledged
// (docs/decisions/041-lost-quorum.md). Its whole log is applied, including the part not known to be committed: the
// lost servers may have acknowledged a write in it.
package newensemble
