// Package migrate moves the data of an Apache ZooKeeper server into a data directory of
// Zooid's, and back. Package apachefiles knows Apache's files; what is here turns their
// znodes and sessions into the tree's and the other way.
//
// Everything that clients can see is kept: each field of each Stat, data, ACLs, the kinds
// of znodes, sessions with their ids, timeouts and passwords, zxids. The next zxid is
// above all that Apache has given out, and clients go on with their sessions.
package migrate
