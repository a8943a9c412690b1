// Package compare lists what differs between two trees: of running servers, Apache's or Zooid's, and of
// their data directories.
//
// Both trees are walked side by side in the order of their paths, so what is in memory doesn't grow with
// the tree of a running server. Servers change while they are read. A znode that differs is therefore
// read again from both sides several times, each time after a sync. It is told as different only if
// neither side's znode changed from the first of these readings to the last: then both servers had
// these znodes at one time. What changed meanwhile is told as changing, unless it became equal.
package compare
