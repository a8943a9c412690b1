// Package storage keeps a server's data directory: the write-ahead log that raft
// reads and appends to, the snapshot files, their recovery after a crash, and purge.
//
// It promises two things. What Append acknowledged is there after any crash, in
// order, or Open refuses to start and names the file and the offset. And a
// write that was never acknowledged is there whole or not at all.
//
// A data directory holds:
//
//	IDENTITY                  which cluster's directory this is
//	0000000000000001.log      log segments, by sequence number (segment.go, frame.go)
//	0000000000012345.snap     snapshots, by the raft index they stand for (snapfile.go)
//	spare-3                   files already written once, the next segments
//	reserve                   space given back when the disk is full (space.go)
//	*.tmp                     unfinished; removed at the next start
//
// Every access to the disk goes through the FS interface: OS is the real one,
// MemFS one that forgets at a power cut what was not synced.
//
// DESIGN.md in this folder holds the crash argument, case by case.
package storage
