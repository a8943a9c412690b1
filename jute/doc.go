// Package jute encodes and decodes ZooKeeper's client protocol: the records sent in both directions, the operation
// codes, the error codes, and the frames around them.
//
// Functions and methods named Append append to b and return the extended slice, as the built-in append does; b may be
// nil. Methods named Decode read from a [Decoder], whose Err tells afterwards whether all of them succeeded. Only one
// goroutine may use a Decoder at a time. Decode sets every field, so a record can be reused. It makes a new slice for
// each vector, such as Children or ACL, so those of an earlier Decode don't change. Append writes a nil slice as null.
// It doesn't validate the record's fields; a value that no server takes, such as an unknown Op, makes a record that
// none can read.
//
// # Encoding
//
// All integers are big-endian two's complement.
//
//	byte, bool   1 byte; a bool is true if it isn't 0
//	int          4 bytes
//	long         8 bytes
//	ustring      int length, then that many bytes, whose UTF-8 isn't checked; null is length -1
//	buffer       same as ustring
//	vector       int count, then the elements; null is count -1
//	record       its fields in order, without tag or length
//
// A frame is an int length followed by that many bytes. The first frame in each direction is the handshake
// ([ConnectRequest], [ConnectResponse]) and has no header. Every later one begins with a [RequestHeader] or a
// [ReplyHeader].
//
// # Memory
//
// Decoding copies nothing: strings and buffers of a decoded record share the memory of the bytes passed to the
// [Decoder]. The bytes must not be modified as long as the record is used. A caller that keeps a string after the
// frame's buffer is reused must clone it, and so must one that shouldn't keep the whole frame in memory.
//
// # Limits
//
// Every length and count is checked against the remaining bytes before any allocation, so a hostile frame can't make
// the decoder allocate more than a small multiple of its own size. Bytes after the last known field are ignored, as in
// Apache's decoder.
package jute
