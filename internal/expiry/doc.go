// Package expiry decides which sessions have been silent for too long. Times are in ms of a monotonic clock, which its
// callers read.
//
// A server has one [Queue] for the sessions in the table, and one for its local sessions. Only the leader uses the
// former, but every server keeps it current to be ready to lead.
//
// Sessions are kept in buckets, as in Apache: a session is examined once, in the bucket after its deadline, and moved
// to a later bucket if it was heard meanwhile. So hearing from a session costs one store and no move between buckets,
// and a session ends between its timeout and its timeout plus one bucket and ReportLagMs after it was last heard.
// Apache's buckets are as long as a tick, so many sessions end at once, and their clients come back at once; these are
// an eighth of that.
//
// Time during which this server did nothing doesn't count as silence. Ticks come a little late all
// the time, so instead of adding each delay to each session, a Queue keeps the sum of the delays; a
// session's share is what was added since the session was last heard. Repeated stalls must not let sessions live
// forever: a long stall excuses a session only if it began within excusableMs after the session was last heard.
//
// A Queue has a lock of its own, which guards all of it, so that other servers' reports are recorded without
// Replica.mu. It is the last in the order of locks: while it is held, nothing else is locked, and only the function
// that [Queue.Due] was given is called.
package expiry
