// Package files reads and writes the files of Apache ZooKeeper's data directory:
// snapshots and transaction logs.
//
// # Reading
//
// [Load] does what an Apache server does when it starts. It takes the newest complete snapshot and replays every
// logged transaction after the zxid in the snapshot's name. Snapshots are fuzzy: Apache writes one while it applies
// transactions, so it may already contain some of those after that zxid. Replaying them again must lead to the same
// state (state.go). The log ends where a record is missing or cut short, as after a crash; a record with a wrong
// checksum is damage.
//
// Since 3.6 Apache writes a digest of the whole tree with snapshots and transactions. Load computes the digest too and
// compares it with each of Apache's.
//
// Apache's files are never changed.
//
// # Writing
//
// [Write] writes a directory on which Apache 3.5 and later starts: one snapshot, and
// the two files with the epoch.
package files
