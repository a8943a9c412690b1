// Package storage manages a server's data directory: the write-ahead log that raft reads and
// appends to, the snapshot files, their recovery after a crash, and purge.
//
// It makes two promises. Acknowledged writes survive any crash, in order, or else Open refuses to start and names the
// file and the offset. And a write that was never acknowledged survives completely or not at all.
//
// A data directory holds:
//
//	IDENTITY                  the cluster to which the directory belongs
//	0000000000000001.log      log segments, by sequence number (segment.go, frame.go)
//	0000000000012345.snap     snapshots, by raft index (snapfile.go)
//	spare-3                   files that have been written before, for the next segments
//	reserve                   space that is released when the disk is full (space.go)
//	*.tmp                     unfinished; removed at the next start
//
// Every access to the disk goes through the FS interface. OS is the real file system; MemFS
// simulates one that loses unsynced data at a power cut.
//
// DESIGN.md in this directory argues case by case that the package survives crashes.
package storage
