package server

import "github.com/zooid-project/zooid/internal/quorum/peer"

// descriptorsKept is how much of the limit of open files (ulimit -n) is kept for other uses than
// clients and peers: the log's segments, snapshots, listeners, and a reserve.
const descriptorsKept = 96

// connectionsByDescriptors returns how many client connections fit a limit of open files; 0 means
// any number. openFiles is 0 or less if the limit isn't known. Of a small limit, clients get a
// quarter.
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
