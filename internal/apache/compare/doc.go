// Package compare lists the differences between two trees. Each is that of a running server or of a data directory,
// Apache's or Zooid's.
//
// Both trees are walked side by side in the order of their paths, so memory use doesn't grow with the tree of a
// running server. Servers change while they are read. A znode that differs is therefore read again from both sides
// several times, each time after a sync. It is reported as different only if neither side's znode changed from the
// first of these readings to the last: then both servers had these znodes at the same time. A znode that changed
// meanwhile is reported as changing, unless it became equal.
package compare
