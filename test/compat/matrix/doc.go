// Package matrix asks a real Apache ZooKeeper and Zooid the same about access, cell by cell: each operation of the
// protocol, under each permission, given to somebody by each scheme, on the znode itself or next to it, asked for by
// each kind of client. The two must answer each cell alike: the code, what is shown, and the events.
//
// A cell (cell.go) is a subtree of its own that the superuser makes, what one client asks about it, and what the
// superuser does afterwards, so thousands of them are on their way at once (play.go). What makes the cells:
//
//	requests.go   operation x permission x scheme x place x client
//	lists.go      the ACLs that may be given to a znode: operation x form of the list x client
//	events.go     which events reach a watch: kind x permission x scheme x place x client
//	own.go        operations on the service's own znodes
//
// Logins (logins.go) take a connection each, and reconfig (reconfig.go) takes an ensemble, so these are few.
//
// What differs on purpose is a row of docs/protocol.md (known.go). Everything else that differs is a bug.
package matrix
