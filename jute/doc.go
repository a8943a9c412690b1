// Package jute holds the words of ZooKeeper's client protocol: the records
// that travel in both directions, the op codes, the error codes, and the
// framing around them.
//
// # Encoding
//
// All integers are big-endian two's complement.
//
//	byte, bool   1 byte; a bool is true when not 0
//	int          4 bytes
//	long         8 bytes
//	ustring      int length, then that many bytes; null is length -1
//	buffer       as ustring
//	vector       int count, then the elements; null is count -1
//	record       its fields back to back, no tag, no length
//
// A frame is an int length followed by that many bytes. The first frame in
// each direction is the handshake ([ConnectRequest], [ConnectResponse]) and has
// no header; every later one begins with a [RequestHeader] or a [ReplyHeader].
//
// # Aliasing
//
// Decoding copies nothing: strings and buffers of a decoded record are windows
// on the bytes handed to the [Decoder]. They are valid, and must not be
// modified, for as long as the record is used. A caller that keeps a string longer than its
// frame must clone it.
//
// # Strictness
//
// Every length and count is checked against the bytes that remain before
// anything is allocated, so a hostile frame can't make the decoder allocate
// more than a small multiple of its own size. Bytes after the last known field
// are ignored, as Apache's decoder ignores them.
package jute
