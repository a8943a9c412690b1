// Package shadow is a proxy between clients and a primary, an Apache ZooKeeper, that plays every request to a
// second server as well, the shadow, and compares the replies.
//
// # The primary comes first
//
// Bytes pass unchanged between client and primary. What is read is looked at on the way ([assembler]) and
// passed on; nothing that concerns the shadow is waited for, and a lock is held only for work in memory. What the
// shadow has yet to do is bounded per connection and in all. At a bound the shadowing of that connection ends, and
// its bytes pass on.
//
// # The order
//
// The primary orders the requests of its connections in a way that a proxy doesn't see, but each reply carries
// the zxid of the state that it shows; a write's is its own, failed or not. All connections go to one
// server of the primary, which answers each of them in order and with zxids that don't go back. So:
//
//   - A request is played after its reply has come, in the order of the replies' zxids; at one zxid the
//     write comes first, then the reads of the state that it made ([queue]).
//   - A reply with zxid z is played only when no lower zxid can come any more: each request that was on its way
//     when the reply came has been answered, or its connection has seen z ([Proxy.blocker]).
//   - A write is played when all before it have been answered; reads in a row go out together.
//
// Then the shadow's state at each request is the one that the primary had, and replies must be equal but for
// zxids, times, and the ids of sessions, which are mapped.
//
// A connection's notifications between two of its replies are those of the writes between the two states,
// so they are compared path by path at each reply ([watched]).
//
// # What no reply shows
//
// A session that expires, a TTL and an empty container take effect at the primary in a moment that the proxy
// doesn't see. The shadow's session lives as long as the primary's may; it is closed when the primary says that it
// has expired, after twice its timeout, or when a difference shows that it must have expired: a reply that
// differs at one of its ephemeral znodes is looked at again after the session has been closed.
//
// Paths of writes that aren't played, and of znodes that each side removes by its own clock, are kept as doubts.
// What differs there is counted as unsure and not as a difference.
package shadow
