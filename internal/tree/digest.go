package tree

// The digest is a sum, modulo 2^64, of one hash per item. Adding, removing or changing an item adds
// a difference to the sum, so neither the order of changes nor the slots matter.
//
//	znode     statHash(path, every field of the Stat, kind, owner, ACL) + dataHash(path, data)
//	session   hash(id, timeout, password) mixed with owner and sequence
//	settings  hash(their record)
//	change    hash(its record), 0 if none is in progress
//	entrance  hash(id, next), 0 if it was never used
//	lineage   hash(lineage), 0 if there is none
//
// Digest also mixes in the tree's position in the log.
const (
	aclSeed      = 0xac1
	dataSeed     = 0xda7a
	sessionSeed  = 0x5e55
	settingsSeed = 0x5e77
	backSeed     = 0xbac6
	entranceSeed = 0xe27
	changeSeed   = 0xc4a9
	lineageSeed  = 0x11ea6e
	scopeSeed    = 1 << 32
)

// statHash is the part of a znode's digest that covers its Stat, kind, owner and ACL.
func (z *znodes) statHash(n *node) uint64 {
	k, rare := &z.key, z.extraOf(n)
	h := n.hash ^ z.acls.entries[n.acl].hash ^ k[3]
	h = fold(uint64(n.czxid)^k[0], uint64(n.mzxid)^h)
	h = fold(uint64(rare.pzxid)^k[1], uint64(n.ctime)^h)
	h = fold(uint64(n.mtime)^k[2], uint64(rare.owner)^h)
	h = fold(uint64(uint32(n.version))<<32^uint64(uint32(n.aversion))^k[0], uint64(rare.created)^h)
	return fold(h^k[1], uint64(n.kind())^k[2])
}

// dataHash is the part of a znode's digest that covers its data.
func (z *znodes) dataHash(n *node) uint64 {
	return z.key.bytes(n.hash^dataSeed^uint64(uint32(n.dataLen))<<32, z.data(n))
}

func (z *znodes) nodeDigest(n *node) uint64 { return z.statHash(n) + z.dataHash(n) }

func (s *Settings) digest(k *hashKey) uint64 { return k.bytes(settingsSeed, s.Append(nil)) }

func (c *change) digest(k *hashKey) uint64 {
	if c.id == 0 {
		return 0
	}
	return k.bytes(changeSeed, c.append(nil))
}

func lineageDigest(k *hashKey, lineage uint64) uint64 {
	if lineage == 0 {
		return 0
	}
	return k.words(lineageSeed, lineage)
}

// baseOf is the part of a session's digest that its requests don't change.
func (ss *Sessions) baseOf(s *session) uint64 {
	k := &ss.znodes.key
	return k.bytes(k.words(sessionSeed+scopeSeed*uint64(s.scope), uint64(s.id), uint64(uint32(s.timeout))), s.passwd[:])
}

func (ss *Sessions) entranceDigest(e *entrance) uint64 {
	if e.id == 0 {
		return 0
	}
	return ss.znodes.key.words(entranceSeed, uint64(e.id), uint64(e.next))
}

func (ss *Sessions) digestOf(s *session) uint64 {
	return fold(s.base^uint64(s.cnx)^ss.znodes.key[0], uint64(s.next)^ss.znodes.key[1])
}

// Digest returns a fingerprint of the whole replicated state and of its position in the log. It is
// equal on replicas that applied the same entries.
func (t *Tree) Digest() uint64 { return t.stamp(t.totals.digest) }

func (t *Tree) stamp(sum uint64) uint64 {
	p := &t.position
	if p.back != 0 {
		sum += t.key.words(backSeed, uint64(p.back))
	}
	return t.key.words(sum, p.term, uint64(p.zxid), uint64(p.time))
}

// RecomputeDigest computes the Digest from scratch, for tests and checks.
func (t *Tree) RecomputeDigest() uint64 { return t.stamp(t.sumDigest()) }

// sumDigest computes totals.digest from scratch.
func (t *Tree) sumDigest() uint64 {
	sum := t.settings.digest(&t.key) + t.membership.change.digest(&t.key) + lineageDigest(&t.key, t.lineage)
	for slot := range t.nodes.all {
		if t.live(slot) {
			sum += t.nodeDigest(t.at(slot))
		}
	}
	for i := range t.sessions.entrances {
		sum += t.sessions.entranceDigest(&t.sessions.entrances[i])
	}
	for slot := range t.sessions.slots.all {
		if s := t.sessions.slots.at(slot); s.id != 0 {
			fresh := *s
			fresh.base = t.sessions.baseOf(s)
			sum += t.sessions.digestOf(&fresh)
		}
	}
	return sum
}

// appendStat appends a znode's Stat.
func (z *znodes) appendStat(dst []byte, n *node) []byte {
	s := z.stat(n)
	return s.Append(dst)
}
