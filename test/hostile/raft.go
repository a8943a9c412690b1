package main

import (
	"encoding/binary"
	"math"
)

// Raft's messages are built by hand, field by field, since a library would refuse
// to build those that are tried here. The numbers are those of raftpb.Message.
const (
	raftType       = 1
	raftTo         = 2
	raftFrom       = 3
	raftTerm       = 4
	raftLogTerm    = 5
	raftIndex      = 6
	raftEntries    = 7
	raftCommit     = 8
	raftSnapshot   = 9
	raftReject     = 10
	raftRejectHint = 11
	raftContext    = 12
	raftVote       = 13
	raftResponses  = 14

	raftTypeMax = 24 // a few more than there are
)

// appendVarintField appends a field that holds a number.
func appendVarintField(b []byte, field int, v uint64) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3)
	return binary.AppendUvarint(b, v)
}

// appendBytesField appends a field that holds bytes or a message.
func appendBytesField(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// number returns a term, an index or a server's id.
func (x extreme) number() uint64 {
	return pick(x, []uint64{
		0, 1, 2, 3, 4, 100, math.MaxUint64, math.MaxUint64 - 1, math.MaxInt64, 1 << 63, uint64(x.IntN(10_000)), x.Uint64(),
	})
}

// raftMessage returns a raft message with arbitrary values in its fields.
func (x extreme) raftMessage(to, from uint64) []byte {
	if x.IntN(8) == 0 { // nothing but a term that can't be exceeded
		return appendVarintField(appendVarintField(nil, raftType, uint64(x.IntN(raftTypeMax))), raftTerm, math.MaxUint64)
	}
	if x.IntN(6) > 0 { // sender and receiver are right most of the time
		return x.raftFields(to, from)
	}
	return x.raftFields(x.number(), x.number())
}

func (x extreme) raftFields(to, from uint64) []byte {
	b := appendVarintField(nil, raftType, uint64(x.IntN(raftTypeMax)))
	b = appendVarintField(b, raftTo, to)
	b = appendVarintField(b, raftFrom, from)
	for _, field := range []int{raftTerm, raftLogTerm, raftIndex, raftCommit, raftRejectHint, raftVote} {
		if x.IntN(3) > 0 {
			b = appendVarintField(b, field, x.number())
		}
	}
	for range x.IntN(3) * x.size(50) {
		b = appendBytesField(b, raftEntries, x.raftEntry())
	}
	switch x.IntN(6) {
	case 0:
		b = appendBytesField(b, raftSnapshot, x.raftSnapshot())
	case 1:
		b = appendBytesField(b, raftContext, x.noise(x.size(1000)))
	case 2:
		b = appendVarintField(b, raftReject, 1)
	case 3:
		b = appendBytesField(b, raftResponses, x.noise(x.IntN(100)))
	}
	if x.IntN(20) == 0 {
		b = b[:x.IntN(len(b))]
	}
	return b
}

// raftEntry returns an entry: type, term, index, data.
func (x extreme) raftEntry() []byte {
	b := appendVarintField(nil, 1, uint64(x.IntN(4)))
	b = appendVarintField(b, 2, x.number())
	b = appendVarintField(b, 3, x.number())
	return appendBytesField(b, 4, x.noise(x.size(2000)))
}

// raftSnapshot returns a snapshot: data, and metadata with a membership, index and term.
func (x extreme) raftSnapshot() []byte {
	var members []byte
	for range x.IntN(5) {
		members = appendVarintField(members, 1, x.number())
	}
	meta := appendBytesField(nil, 1, members)
	meta = appendVarintField(meta, 2, x.number())
	meta = appendVarintField(meta, 3, x.number())
	return appendBytesField(appendBytesField(nil, 1, x.noise(x.IntN(100))), 2, meta)
}
