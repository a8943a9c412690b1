// Package apache moves the data of an Apache ZooKeeper server into a Zooid data directory, and back. Package
// files handles Apache's files; this package converts their znodes and sessions to those of the tree and vice
// versa.
//
// Everything that clients can see is kept: each field of each Stat, data, ACLs, the kinds of znodes, sessions with
// their ids, timeouts and passwords, zxids. The next zxid is higher than any that Apache has issued, and clients
// continue their sessions.
package apache
