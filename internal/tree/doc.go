// Package tree is the replicated state machine: znodes, sessions, ACLs, quotas and settings,
// changed only by the entries of the log.
//
// # Applying entries
//
// [Tree.Apply] takes a log entry, a batch of requests exactly as clients sent them, and evaluates each request against
// the state after the previous one: first the checks, in Apache's order, then the change, then the result and its
// events. The tree uses neither clock nor network, and no result depends on a map's order or on a server's own limits
// or settings. So replicas that apply the same entries are equal, which [Tree.Digest] verifies.
//
//	entry ──▶ Records ──▶ admit (exactly once) ──▶ write ──▶ edit ──▶ Result ──▶ visit
//	                                                           │
//	                          undo log (multi) ◀── old state ──┴──▶ open snapshots
//
// # Parts
//
// Only a part's methods change its fields, except that rollback restores them. Above the znodes, which all others use,
// are [Sessions] (with the lists of their ephemeral znodes), quotas (which paths have one), [Membership] (the change in
// progress), [Access] (who may do what, by ACLs, the policy and [Settings]), and the position in the log. Tree
// evaluates the requests. A tree being read from a snapshot is a restoring, and a snapshot being written an [Image].
//
// # Memory layout
//
// A znode is 80 bytes in a slab (slab.go), and 48 more in another slab if it has an owner or ever had a child. Its name
// and data are one block of an arena (arena.go), and 8 bytes in a hash table find it by its path (table.go). None of
// these has pointers, so the garbage collector scans and frees nothing here. Siblings are linked in the order of their
// creation. ACLs are interned (acl.go). The znodes of requests that arrive together are loaded into the cache together
// (prefetch.go). Holes left by deletes are compacted and their memory is returned (compact.go).
//
// # Concurrency
//
// Changes, including Compact, need exclusive access to the tree; reads may run concurrently with each other. The only
// lock of the package is that of a cache (lists.go).
//
// # Differences from Apache
//
//   - Sequence numbers don't stop at 2^31-1: the counter has 64 bits.
//   - A client's deleteContainer is refused as unimplemented; Apache deletes
//     without checking any ACL.
//   - A znode keeps the kind it was created with when settings change; in Apache,
//     TTL znodes turn into ephemeral ones if extended types are switched off.
//   - createTTL without a TTL mode is refused whatever its TTL; Apache stores a
//     broken owner if the TTL is negative.
//   - A malformed write takes a zxid of its own.
//   - "/" and "" always name the same znode, even while its ACL is being changed.
//   - Quota stats are replicated state: they aren't recomputed on restart.
//     Limits and stats that can't be parsed count as missing; with such data,
//     Apache fails every write below the quota.
//   - The leader's deleteContainer takes no zxid if the znode no longer qualifies.
package tree
