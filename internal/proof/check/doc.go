// Package check decides whether a recorded run of a coordination service kept its promises. It checks every reply,
// event and session of the run, not a sample.
//
// # Why that is possible
//
// Deciding whether an arbitrary history is sequentially consistent is NP-complete, since the order of the writes isn't
// known. Here the order is known: each reply has a zxid. If the zxid of a reply is exactly that of the state that the
// reply shows (rule X1), checking is a sort and a replay. [Check] makes three passes:
//
//  1. wire.go reads the events in the order of their times, pairs replies with requests and checks what needs no
//     model: the order on one connection, one session across its connections, and real time. Meanwhile a second
//     goroutine looks up the paths of the requests (names.go).
//  2. order.go sorts by zxid. sweep.go applies each write to a naive model (model.go, apply.go) and compares its
//     result, and compares each read with the state at its zxid (read.go). It maintains every connection's watch
//     tables (watch.go), and so determines which events each connection should receive. A second goroutine decodes the
//     next items for the sweep (prefetch.go).
//  3. watchevents.go compares these events with those that each connection received.
//
// The model is a map from path to the list of the znode's states by zxid, newest first. It shares no code with the
// server's tree, only the protocol's encoding (package jute).
//
// # Changes without a reply
//
// A write without a reply may have happened or not, and nothing records when a session expired. If the history has the
// servers' logs (serverlog.go), they decide, and the check is exact. If not, such changes count as unanswered
// (unanswered.go): they happen in the model when something shows that they did (evidence.go). A mismatch that an
// unanswered change might explain in a way that the search didn't find is counted in [Report].Undecided and isn't a
// violation, and the znodes concerned aren't checked until a read shows everything about them again.
//
// # The rules
//
// X1 to X10 are about the order of what clients see, W1 to W7 about watches, S1 to S6 about sessions. The meaning of
// each operation is Apache's.
//
//	X1  A read's body is the state as of its header's zxid: data, all eleven
//	    fields of the Stat, ACL, set of children, error code. Only replies to
//	    authentication and pings, and refusals, have no zxid (the same holds for
//	    X2 and X9).
//	X2  The zxid in a write's header is the write's own, on success or error: that
//	    of its Stat and of its entry in the log.
//	X3  A notification's zxid is that of the change that fired it.
//	X4  On one connection zxids never decrease, and the event of zxid z precedes
//	    every reply with a zxid >= z.
//	X5  No two changes share a zxid; zxids increase over the log.
//	X6  Replies come in the order of the requests. Pings and authentication may
//	    overtake.
//	X7  A client that has seen zxid L, events included, is served at L or later
//	    after a reconnect.
//	X8  A session's end removes all its ephemerals, in that one zxid.
//	X9  A sync's zxid is at least every zxid that any client had seen before the
//	    sync was sent.
//	X10 After the end of a session is committed, no request of it, pings included,
//	    is answered later than a third of its timeout, or a second if that is longer.
//	    Answers to requests sent before that are judged with Options.DeliveryMax only. (decision 086)
//	W1  A one-shot watch that was armed at zr fires exactly once, with the right
//	    type and path, for the first change after zr that matches: not later than
//	    the first reply that shows the change.
//	W2  Events come in the order of the changes. This check adds something only if
//	    notifications aren't numbered; otherwise X4 covers it.
//	W3  No event comes without an armed watch; no one-shot fires twice.
//	W4  When everything is at rest, every event has come. (Options.Quiesced)
//	W5  setWatches tells what changed since its relativeZxid, in unnumbered events
//	    before its reply, and arms the rest.
//	W6  A persistent watch gets every matching event once; a recursive one gets no
//	    NodeChildrenChanged.
//	W7  No client gets events of a znode it may not read. (CVE-2024-23944)
//	S1  An ephemeral exists from its creation to its session's end.
//	S2  Nothing of a session is answered or applied after its end; it can't be
//	    resumed, and a client that asks for it is refused, not given another one.
//	    Reads at or after the zxid of an expiry are checked with logs only.
//	S3  No session expires before its timeout has passed since its client sent
//	    the last packet that was answered.
//	S4  No session is seen alive long after its timeout. (Options.ExpirySlack)
//	S5  An expiry takes effect only in the term that decided it. (logs only)
//	S6  After a session has moved to a new connection, nothing sent on the old one
//	    is applied.
//
//	result      A write's code and reply follow from the state before it; times
//	            never go back.
//	realtime    A write's zxid is above every zxid seen before it was sent.
//	sequence    A sequential name ends in the parent's count of creations.
//	multi       A multi has all its effects or none, and says which; no client sees
//	            part of it.
//	twice       No request is applied twice. Without logs only writers whose values
//	            are unique can show this.
//	fifo        No write is applied if one sent before it on its connection was
//	            lost. Exact with logs only.
//	durability  What was acknowledged is in the log, and in every server's final
//	            state. (events of KindDump)
//	agreement   Servers hold the same requests and digests at the same zxids. (logs)
//	origin      Every entry of the log has an author. (logs)
//	form        The history itself makes sense: if not, its recorder is at fault.
//
// A local session that has not written may end unseen: S3 doesn't apply to it,
// and closing it takes no zxid (Options.LocalSessions).
//
// Not modelled: quotas, reconfig, read-only servers, SASL and X.509 identities
// beyond equality of names; znodes below /zookeeper are not checked.
//
// # Apache
//
// The rules were tested with Apache 3.8.0 and 3.9.5, also killed with -9 under load. These versions keep all rules
// except for the cases in [Options]: notifications without zxid and exists without READ (before 3.9), a sync that is
// not linearizable and reads that may be newer than their zxid (ensembles), a clock that may go back, and two
// exceptions that only tests showed: the ACL from before a setACL decides about writes sent soon after it (ACLLags),
// and 3.8.0 replies to a create2 in a multi as to a create (MultiCreate2Plain). Before 3.9 one connection has one watch
// mode per path; traffic.Mix avoids the consequences.
//
// # Histories
//
// Package history has the format of the histories, package traffic makes histories of real servers, and the simulator
// makes others.
package check
