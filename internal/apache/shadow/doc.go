// Package shadow is a proxy between clients and a primary, an Apache ZooKeeper. It plays every request to a second
// server, the shadow, as well, and compares the replies.
//
// # The primary comes first
//
// Bytes pass unchanged between client and primary. The proxy inspects them on the way ([assembler]) and passes them
// on; it never waits for the shadow, and holds a lock only for work in memory. The requests that the shadow has yet to
// process are bounded per connection and in total. When a bound is reached, that connection is no longer shadowed, but
// its bytes still pass.
//
// # The order
//
// The primary orders the requests of its connections in a way that a proxy can't see, but each reply carries the zxid
// of the state that it shows; for a write, failed or not, that is the write's own. All connections go to one server of
// the primary, which answers the requests of each in order, with zxids that never decrease. So:
//
//   - A request is played after its reply has arrived, in the order of the replies' zxids. At the same zxid the write
//     comes first, then the reads of the resulting state ([queue]).
//   - A reply with zxid z is played only when no lower zxid can follow: each request that was pending when the reply
//     arrived has been answered, or its connection has seen z ([Proxy.blocker]). A reply with z shows that; a
//     notification with z doesn't, as a client gets notifications of its own write before the write's reply.
//   - A write is played when everything before it has been answered; consecutive reads are sent together.
//
// Then the shadow handles each request in the same state as the primary did, and the replies must be equal except for
// zxids, times, and session ids, which are mapped.
//
// The notifications on a connection between two of its replies are those of the writes between the two states, so they
// are compared path by path at each reply ([watched]).
//
// # What no reply shows
//
// At the primary, the expiry of a session, a TTL and an empty container take effect at a moment that the proxy can't
// see. The shadow's session lives as long as the primary's may live. It is closed when the primary reports that its
// session has expired, after twice the timeout, or when a difference shows that it must have expired: a reply that
// differs at one of the session's ephemeral znodes is compared again after the session has been closed.
//
// The paths of writes that aren't played, and of znodes that each side removes by its own clock, are kept as doubts. A
// difference at such a path is counted as unsure.
package shadow
