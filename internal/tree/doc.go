// Package tree is the replicated state machine: znodes, sessions, ACLs, quotas
// and settings, changed only by the entries of the log.
//
// # One way in
//
// [Tree.Apply] takes a log entry, a batch of requests exactly as clients sent
// them, and evaluates each against the state that the one before it left:
// checks in Apache's order, then change, then result and events. The tree knows
// neither clock nor network, and no map's order, limit or setting of one server
// reaches a result, so replicas that apply the same entries are equal; [Tree.Digest]
// proves it.
//
//	entry ──▶ Records ──▶ admit (exactly once) ──▶ write ──▶ edit ──▶ Result ──▶ visit
//	                                                           │
//	                          undo log (multi) ◀── old state ──┴──▶ open snapshots
//
// # Where the memory is
//
// A znode is 80 bytes in a slab (slab.go), 40 more in another if it is owned or
// ever had a child; its name and data are one block of an arena (arena.go), and
// 8 bytes in a hash table find it by path (table.go): no pointers, so that the
// collector has nothing to scan and nothing to free. Siblings are linked in the
// order of their creation. ACLs are interned (acl.go). Requests that come
// together have their znodes fetched together (prefetch.go). What deletes leave
// behind is moved together and given back (compact.go).
//
// # Who may call when
//
// Changes need the tree to themselves, and so does Compact; reads run beside each
// other. The package has no lock but that of a cache (lists.go).
//
// # Where it differs from Apache
//
//   - Sequence numbers don't stop at 2^31-1: the counter has 64 bits.
//   - A client's deleteContainer is refused as unimplemented: at Apache it deletes
//     without asking any ACL.
//   - A znode keeps the kind it was created with when settings change; at Apache
//     TTL znodes turn into ephemeral ones if extended types are switched off.
//   - createTTL without a TTL mode is refused whatever its TTL; Apache stores a
//     broken owner if it is negative.
//   - A malformed write takes a zxid of its own.
//   - "/" and "" are one znode also while its ACL is changing.
//   - Quota stats are replicated state: they aren't computed anew on restart.
//     Limits and stats that don't parse count as none; Apache then fails every
//     write below the quota.
//   - A deleteContainer of the leader that no longer holds takes no zxid.
package tree
