// Package serverid translates the ids of servers between their two forms. A myid is what operators, clients and Apache
// know a server by: the number in the file myid, in server.N and on every page, 0 or more. The consensus protocol has a
// uint64 for it, and reserves 0 for "no server". The forms differ for server 0 only. The ids of sessions and
// connections begin with it (NewIDs).
package serverid

import (
	"slices"
	"strings"
)

// zero is server 0 in the consensus protocol.
//   - No myid has this value: it is above the range of int64.
//   - Its last byte is that of server 0, so sessions get the ids that Apache's server 0 would give them.
//   - Text replaces it in messages, so it must be a number that nothing else has. 1<<63 is the owner of containers.
const (
	zero     uint64 = 3 << 62
	zeroText        = "13835058055282163712"
)

// Raft returns the id in the consensus protocol of the server with a myid.
func Raft(myid int64) uint64 {
	if myid == 0 {
		return zero
	}
	return uint64(myid)
}

// MyID returns the myid of the server with an id in the consensus protocol. Of 0, which is no server, it returns 0.
func MyID(raft uint64) int64 {
	if raft == zero {
		return 0
	}
	return int64(raft)
}

// MyIDs returns the myids of servers, ascending.
func MyIDs(raft []uint64) []int64 {
	ids := make([]int64, 0, len(raft))
	for _, id := range raft {
		ids = append(ids, MyID(id))
	}
	slices.Sort(ids)
	return ids
}

// Text returns a message for people with server 0's id in the consensus protocol replaced by its myid. Messages are
// written by packages that know only the former.
func Text(message string) string { return strings.ReplaceAll(message, zeroText, "0") }
