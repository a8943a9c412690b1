// Package apachefiles reads and writes the files of Apache ZooKeeper's data directory:
// snapshots and transaction logs.
//
// # Reading
//
// [Load] does what an Apache server does when it starts. It takes the newest snapshot
// that is whole, and replays on it every transaction of the log behind the zxid in the
// snapshot's name. Snapshots are fuzzy: Apache writes one while it applies
// transactions, so some of those behind that zxid are in it already. Replaying them again
// has to lead to the same state (state.go). The log ends where a record is missing or cut
// short, as a crash leaves it; a record whose checksum is wrong is damage.
//
// From 3.6 on Apache writes a digest of the whole tree with snapshots and transactions.
// Load computes it too and compares it with each of them.
//
// Apache's files are never changed.
//
// # Writing
//
// [Write] writes a directory on which Apache 3.5 and later starts: one snapshot, and
// the two files with the epoch.
package apachefiles
