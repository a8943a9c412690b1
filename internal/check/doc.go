// Package check decides whether a recorded run of a coordination service kept
// its promises: every reply, event and session of the run, not a sample.
//
// # Why that is possible
//
// To decide from an arbitrary history whether it is sequentially consistent is
// NP-complete, because the order of the writes isn't known. Here it is: each
// reply carries a zxid. If the zxid of a reply is exactly that of the state the
// reply shows (rule X1), checking is a sort and a replay. [Check] makes three
// passes:
//
//  1. wire.go reads the events in the order of their times, pairs replies with
//     requests and checks what needs no model: one connection's order, one
//     session's across its connections, and real time. A second goroutine looks
//     up the paths of the requests meanwhile (names.go).
//  2. order.go sorts by zxid; sweep.go applies each write to a naive model
//     (model.go, apply.go) and compares its result, and compares each read with
//     the state it claims to show (read.go). It keeps every connection's watch
//     tables (watch.go) and so learns what each connection should hear. A second
//     goroutine decodes what the sweep needs, ahead of it (prefetch.go).
//  3. watchevents.go compares that with what each connection got.
//
// The model is a map from path to the list of the znode's states by zxid, newest
// first. It shares no code with the server's tree, only the words on the wire
// (package jute).
//
// # What wasn't answered
//
// A write whose reply was lost may have happened or not, and nobody tells when a
// session expired. If the history holds the servers' logs (serverlog.go) they
// decide, and the check is exact. If not, such changes count as unanswered (unanswered.go):
// they happen in the model when something shows that they did (evidence.go). A
// mismatch that an unanswered change might explain in a way the search didn't find is counted
// in [Report].Undecided instead of being called a violation, and the znodes it
// rests on are left alone until a read tells everything about them again.
//
// # The rules
//
// Sources: design.md section 4 (X1 to X9, "D") and the reliability study,
// section 1.3 (steps A to L, W1 to W7, S1 to S6, "R"); the meaning of each
// operation is Apache's ("Z" 1.4 to 1.11 and 2.1 to 2.12).
//
//	X1  A read's body is the state as of its header's zxid: data, all eleven
//	    fields of the Stat, ACL, set of children, error code. No reply but to
//	    authentication, a ping or a refusal goes without a zxid (nor do X2's and
//	    X9's). (D X1, R E, Z 1.7, 2.4)
//	X2  A write's header zxid is its own, success or error: that of its Stat, of
//	    its entry in the log. (D X2, R C)
//	X3  A notification's zxid is that of the change that fired it. (D X3, Z 1.9)
//	X4  On one connection zxids never decrease, and the event of zxid z precedes
//	    every reply with a zxid >= z. (D X4, R F)
//	X5  No zxid is two changes'; they increase over the log. (D X5, R A)
//	X6  Replies come in the order of the requests. Pings and authentication may
//	    overtake. (D X6, R F, Z 1.4)
//	X7  A client that has seen zxid L, events included, is served at L or later
//	    after a reconnect. (D X7, R F)
//	X8  At a session's end all its ephemerals go, in that one zxid. (D X8, R I S1)
//	X9  A sync's zxid is at least every zxid anybody had seen before the sync was
//	    sent. (D X9, R G)
//	W1  A one-shot watch that was armed at zr fires exactly once, with the right
//	    type and path, for the first change after zr that matches: not later than
//	    the first reply that shows the change. (R W1, Z 1.9)
//	W2  Events come in the order of the changes. Shows only where notifications
//	    are not numbered; otherwise X4 says it. (R W2)
//	W3  No event without an armed watch; no one-shot fires twice. (R W3)
//	W4  When all is at rest every event has come. (R W4; Options.Quiesced)
//	W5  setWatches tells what changed since its relativeZxid, in unnumbered events
//	    before its reply, and arms the rest. (R W5, Z 1.9)
//	W6  A persistent watch hears every matching event once; a recursive one no
//	    NodeChildrenChanged. (R W6, Z 1.9)
//	W7  Nobody hears of a znode he may not read. (R W7, Z 1.9, CVE-2024-23944)
//	S1  An ephemeral is there from its creation to its session's end. (R S1)
//	S2  Nothing of a session is answered or applied after its end; it is not
//	    resumed, and a client that asks for it is refused, not given another.
//	    Reads at or after the zxid of an expiry show with logs only. (R S2, Z 1.3)
//	S3  No session expires before its timeout has passed since its client sent
//	    the last packet that was answered. (R S3)
//	S4  No session is seen alive long after its timeout. (R S4; Options.ExpirySlack)
//	S5  An expiry takes effect only in the term that decided it. (R S5; logs only)
//	S6  After a session has moved to a new connection nothing of the old one is
//	    applied. (R S6)
//
//	result      A write's code and reply follow from the state before it; times
//	            never go back. (R C, Z 1.7, 2.2, 2.4)
//	realtime    A write's zxid is above every zxid seen before it was sent. (R D)
//	sequence    A sequential name ends in the parent's count of creations. (R J, Z 2.3)
//	multi       A multi has all its effects or none, and says which; nobody sees
//	            part of it. (R K, Z 1.8)
//	twice       No request is applied twice. Without logs this shows where the
//	            writer's values are unique. (R C)
//	fifo        No write is applied if one sent before it on its connection was
//	            lost. Exact with logs only. (D X6, R C)
//	durability  What was acknowledged is in the log, and in every server's final
//	            state. (R C, L; events of KindDump)
//	agreement   Servers hold the same requests and digests at the same zxids. (R A; logs)
//	origin      Every entry of the log has an author. (R C; logs)
//	form        The history makes sense as such: if not, its recorder is at fault.
//
// A local session that has not written may end unseen: S3 says nothing of it, and
// closing it takes no zxid (Options.LocalSessions).
//
// Not modelled: quotas, reconfig, read-only servers, SASL and X.509 identities
// beyond equality of names; znodes below /zookeeper are not checked.
//
// # Apache
//
// The rules were held against Apache 3.8.0 and 3.9.5, also killed with -9 under
// load; they break none of them but for what [Options] names: notifications without
// zxid and exists without READ (before 3.9), a sync that is not linearizable and
// reads that may be newer than their zxid (ensembles), a clock that may go back,
// and two that only running it showed: writes sent soon after a setACL are judged
// by the ACL before it (ACLLags), and 3.8.0 answers a create2 in a multi as a
// create (MultiCreate2Plain). Before 3.9 one connection holds one watch mode per
// path; traffic.Mix avoids what that leads to.
//
// # Histories
//
// Package history holds what is checked, package traffic makes histories of real
// servers; the simulator makes others.
package check
