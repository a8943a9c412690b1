package tree

// A new tree hashes with Options.Key, which can be computed from the ensemble's configuration. So the first leader
// draws a random secret, and every replica hashes with it from its log entry on. The secret is only in the log and in
// snapshots: no request reads it.

// SecretSize is the size of the secret in an OpSecret request, in bytes.
const SecretSize = 16

// Keyed reports whether the hashes are keyed with a secret from the log.
func (z *znodes) Keyed() bool { return z.keyed }

// applySecret sets the secret of an OpSecret request. Only the first secret counts, since two leaders may each have
// drawn one.
func (t *Tree) applySecret(body []byte, r *Result) {
	if t.keyed || len(body) != SecretSize {
		r.Outcome = Ignored
		return
	}
	t.rekey(newHashKey([SecretSize]byte(body)))
}

// rekey recomputes all hashes with key. A new tree has nothing to hash. In a tree from before secrets existed this
// takes half a second for a million znodes, once, on all servers at the same entry.
func (t *Tree) rekey(key hashKey) {
	t.key, t.keyed = key, true
	t.rootHash = key.root()
	for i := range t.acls.entries {
		if e := &t.acls.entries[i]; e.encoded != "" {
			e.hash = key.child(aclSeed, e.encoded)
		}
	}
	for slot := range t.sessions.slots.all {
		if s := t.sessions.slots.at(slot); s.id != 0 {
			s.base = t.sessions.baseOf(s)
		}
	}
	t.table.clear()
	t.overflow = nil
	var met loadedNodes
	for slot := uint32(rootSlot); slot != 0; slot = t.following(slot) {
		n := t.at(slot)
		n.hash = t.rootHash
		if slot != rootSlot {
			n.hash = key.child(t.at(n.parent).hash, t.name(n))
		}
		if met.add(slot) {
			t.indexAll(&met)
		}
	}
	t.indexAll(&met)
	t.totals.digest = t.sumDigest()
}

// indexAll indexes the znodes in met and empties it.
func (z *znodes) indexAll(met *loadedNodes) {
	slots := met.slots[:met.count]
	met.count = 0
	z.touch(slots)
	for _, slot := range slots {
		z.index(slot)
	}
}

// following returns the znode after slot in a walk that visits parents before their children, 0 at the end.
func (z *znodes) following(slot uint32) uint32 {
	n := z.at(slot)
	if k := z.extraOf(n); n.kind() != ephemeral && k.children > 0 {
		return k.first
	}
	for slot != rootSlot {
		n = z.at(slot)
		if n.next != 0 {
			return n.next
		}
		slot = n.parent
	}
	return 0
}
