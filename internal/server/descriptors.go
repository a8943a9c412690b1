package server

import "github.com/zooid-project/zooid/internal/quorum/peer"

// descriptorsKept is what clients leave of the limit of open files (ulimit -n) beside
// what peers may take: the log's segments, snapshots, listeners, and their reserve.
const descriptorsKept = 96

// connectionsByDescriptors returns how many connections of clients fit a limit of
// open files, 0 for any number; that limit is 0 or less where it isn't known. A small limit is shared.
func connectionsByDescriptors(openFiles int64, peers bool) int {
	if openFiles <= 0 {
		return 0
	}
	kept := int64(descriptorsKept)
	if peers {
		kept += peer.DescriptorsMax
	}
	return int(max(openFiles-kept, openFiles/4))
}
