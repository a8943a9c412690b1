// Package matrix asks a real Apache ZooKeeper and Zooid the same questions about access, cell by cell: each operation
// of the protocol, under each permission, granted by each scheme, on the znode itself or next to it, asked by each
// kind of client. Both must answer each cell alike: the code, the body, and the events.
//
// A cell (cell.go) is a separate subtree that the superuser creates, one client's requests about it, and the
// superuser's later requests, so thousands of them can run at the same time (play.go). The cells come from:
//
//	requests.go   operation x permission x scheme x place x client
//	lists.go      the ACLs that may be given to a znode: operation x form of the list x client
//	events.go     which events reach a watch: kind x permission x scheme x place x client
//	own.go        operations on the service's own znodes
//
// Logins (logins.go) need a connection each, and reconfig (reconfig.go) needs an ensemble, so there are few of these.
//
// Intended differences are rows of docs/protocol.md (known.go). Any other difference is a bug.
package matrix
