package jute

import "encoding/binary"

// AppendBool appends a bool: one byte, 1 or 0.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt appends an int: four bytes.
func AppendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendLong appends a long: eight bytes.
func AppendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendString appends a ustring. It can't append null; see AppendNullString.
func AppendString(b []byte, s string) []byte {
	return append(AppendInt(b, int32(len(s))), s...)
}

// AppendNullString appends the null ustring.
func AppendNullString(b []byte) []byte { return AppendInt(b, -1) }

// AppendBuffer appends a buffer. A nil p is encoded as null, and an empty p as a buffer of length 0.
func AppendBuffer(b, p []byte) []byte {
	if p == nil {
		return AppendInt(b, -1)
	}
	return append(AppendInt(b, int32(len(p))), p...)
}

// AppendStrings appends a vector of ustrings. A nil v is encoded as null.
func AppendStrings(b []byte, v []string) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	b = AppendInt(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}
