package tree

import (
	"fmt"
	"reflect"

	"github.com/zooid-project/zooid/internal/policy"
)

// invariants walks every structure of the tree and says what is broken, "" if
// nothing is.
func invariants(t *Tree) string {
	if t.undo.open || t.undo.steps.last() != nil {
		return "the undo log is open between requests"
	}
	if !samePolicy(t, t.access.policy) {
		return "the policy in force isn't that of its znode"
	}
	sum := totals{digest: t.totals.digest}
	aclRefs := map[uint32]int{aclOpen: 1, aclConfig: 1}
	blocks, blockBytes := 0, 0
	extras, without := map[uint32]bool{}, 0
	for slot := range t.nodes.all {
		if !t.live(slot) {
			continue
		}
		n := t.at(slot)
		sum.nodes++
		sum.dataSize += t.pathLen(slot) + n.size()
		aclRefs[n.acl]++
		if p := n.payload(); p > 0 {
			blocks++
			if p > blockMax {
				blockBytes += len(t.payloads.large.blocks[n.block])
			} else {
				blockBytes += classSize(classOf(p))
			}
		}
		if got := t.find(string(t.appendPath(nil, slot))); got != slot {
			return fmt.Sprintf("slot %d is found at %d", slot, got)
		}
		if t.findChild(n.parent, n.hash, t.name(n)) != slot && slot != rootSlot {
			return fmt.Sprintf("slot %d isn't a child", slot)
		}
		k := t.extraOf(n)
		below, sizes := -1, int64(-n.size())
		t.walk(slot, func(n *node) { below++; sizes += int64(n.size()) })
		if k.below != uint32(below) || k.sizes != sizes {
			return fmt.Sprintf("slot %d has %d znodes of %d bytes below it instead of %d of %d",
				slot, k.below, k.sizes, below, sizes)
		}
		if n.extra != 0 {
			extras[n.extra] = true
		} else {
			without++
		}
		switch n.kind() {
		case ephemeral:
			sum.ephemerals++
			sum.ephPaths += len(t.appendPath(nil, slot))
			if k.children != 0 || n.extra == 0 {
				return "an ephemeral has children, or no nodeExtra"
			}
			continue
		case container, ttl:
			sum.reapable++
		}
		count, prev := uint32(0), uint32(0)
		for c := k.first; c != 0; c = t.at(c).next {
			if t.at(c).parent != slot || t.at(c).prev != prev {
				return fmt.Sprintf("slot %d has wrong links", c)
			}
			prev = c
			count++
		}
		if prev != k.last || count != k.children {
			return fmt.Sprintf("slot %d has %d children instead of %d", slot, count, k.children)
		}
		if list, ok := t.lists.lists[slot]; ok && uint32(list[3])+uint32(list[2])<<8 != k.children {
			return fmt.Sprintf("the cached children of slot %d are stale", slot)
		}
	}
	if sum != t.totals || sum.nodes != t.nodes.live {
		return fmt.Sprintf("totals are %+v instead of %+v", t.totals, sum)
	}
	if blocks != t.payloads.blocks || blockBytes != t.payloads.liveBytes {
		return fmt.Sprintf("arena counts %d blocks of %d bytes instead of %d of %d", t.payloads.blocks, t.payloads.liveBytes,
			blocks, blockBytes)
	}
	if len(extras) != t.extras.live || len(extras)+without != t.nodes.live {
		return fmt.Sprintf("%d znodes have %d of %d extras, %d have none", t.nodes.live, len(extras), t.extras.live, without)
	}
	if s := tableInvariants(t); s != "" {
		return s
	}
	live, aclBytes := 0, 0
	for i := range t.acls.entries {
		if e := &t.acls.entries[i]; e.encoded != "" {
			live++
			aclBytes += e.size()
			if e.refs != aclRefs[uint32(i)] || t.acls.index[e.encoded] != uint32(i) {
				return fmt.Sprintf("ACL %d has %d references instead of %d", i, e.refs, aclRefs[uint32(i)])
			}
		}
	}
	if live != len(t.acls.index) || live+len(t.acls.free) != len(t.acls.entries) || live != len(aclRefs) {
		return "ACLs leak"
	}
	if aclBytes != t.acls.bytes {
		return fmt.Sprintf("ACLs of %d bytes count as %d", aclBytes, t.acls.bytes)
	}
	if s := sessionInvariants(t); s != "" {
		return s
	}
	if s := arenaInvariants(&t.payloads); s != "" {
		return s
	}
	for name, s := range map[string]string{
		"znodes": slabInvariants(&t.nodes), "extras": slabInvariants(&t.extras),
		"sessions": slabInvariants(&t.sessions.slots),
	} {
		if s != "" {
			return name + ": " + s
		}
	}
	if t.Digest() != t.RecomputeDigest() {
		return "the digest isn't that of the state"
	}
	return ""
}

func tableInvariants(t *Tree) string {
	count := 0
	for i := range t.table.segments {
		s := &t.table.segments[i]
		entries := 0
		for _, e := range s.entries {
			if e == 0 {
				continue
			}
			entries++
			if !t.live(e.slot()) || t.at(e.slot()).hash>>32 != uint64(e.tag()) || t.table.segmentOf(e.tag()) != s {
				return fmt.Sprintf("table entry %#x is wrong", e)
			}
		}
		if entries != s.count {
			return fmt.Sprintf("segment %d counts %d entries instead of %d", i, s.count, entries)
		}
		count += entries
	}
	for key, slot := range t.overflow {
		if n := t.at(slot); !t.live(slot) || n.parent != key.parent || t.name(n) != key.name {
			return fmt.Sprintf("overflow of %v is wrong", key)
		}
		count++
	}
	if count != t.nodes.live {
		return fmt.Sprintf("%d table entries for %d znodes", count, t.nodes.live)
	}
	return ""
}

func sessionInvariants(t *Tree) string {
	total := 0
	for id, slot := range t.sessions.index {
		s := t.sessions.slots.at(slot)
		if s.id != id {
			return "a session isn't where the index says"
		}
		count, prev, pathBytes := uint32(0), uint32(0), 0
		for z := s.first; z != 0; z = t.extraOf(t.at(z)).last {
			if k := t.extraOf(t.at(z)); t.at(z).kind() != ephemeral || k.owner != id || k.first != prev {
				return fmt.Sprintf("slot %d is in the wrong list", z)
			}
			prev = z
			count++
			pathBytes += len(t.appendPath(nil, z))
		}
		if prev != s.last || count != s.ephemerals || int64(pathBytes) != s.pathBytes {
			return "a session's list is broken"
		}
		total += int(count)
	}
	if total != t.totals.ephemerals || len(t.sessions.index) != t.sessions.slots.live {
		return "ephemerals or sessions leak"
	}
	return ""
}

func arenaInvariants(a *arena) string {
	pooled := map[uint32]bool{}
	for _, p := range a.pool {
		pooled[p] = true
	}
	live := len(a.large.blocks) - len(a.large.indexes)
	largeBytes, kept := 0, 0
	for _, b := range a.large.blocks {
		largeBytes += len(b)
	}
	for c := range a.large.free {
		kept += len(a.large.free[c].dirty) * largeSize(c)
	}
	if largeBytes != a.large.bytes || kept != a.large.kept {
		return fmt.Sprintf("large blocks count %d bytes and %d kept instead of %d and %d", a.large.bytes, a.large.kept,
			largeBytes, kept)
	}
	for i := range a.pages {
		p := &a.pages[i]
		if pooled[uint32(i)] {
			if p.listed || p.live != 0 {
				return fmt.Sprintf("page %d is in the pool and in use", i)
			}
			continue
		}
		live += int(p.live)
		full := p.free == 0 && int(p.cut) == arenaPage/classSize(int(p.class))
		if p.live == 0 || full == p.listed {
			return fmt.Sprintf("page %d: live %d, full %v, listed %v", i, p.live, full, p.listed)
		}
	}
	if live != a.blocks {
		return fmt.Sprintf("pages hold %d blocks instead of %d", live, a.blocks)
	}
	return ""
}

func slabInvariants[T any](s *slab[T]) string {
	free, listed := 0, map[uint32]bool{}
	for c, prev := s.room, uint32(0); c != 0; c = s.state[c-1].next {
		if s.state[c-1].prev != prev || s.chunks[c-1] == nil || s.state[c-1].free == 0 {
			return fmt.Sprintf("chunk %d is listed wrongly", c-1)
		}
		prev, listed[c-1] = c, true
		for slot := s.state[c-1].free; slot != 0; slot = *s.link(slot) {
			if slot/slabSlots != c-1 || slot > s.used {
				return fmt.Sprintf("slot %d is free in chunk %d", slot, c-1)
			}
			free++
		}
	}
	live := 0
	for c := range s.state {
		state := &s.state[c]
		live += int(state.live)
		switch {
		case s.chunks[c] == nil:
			if state.live != 0 || listed[uint32(c)] {
				return fmt.Sprintf("chunk %d was given back and has %d live slots", c, state.live)
			}
			free += slabSlots
			if c == 0 {
				free--
			}
		case (state.free != 0) != listed[uint32(c)]:
			return fmt.Sprintf("chunk %d has free slots and isn't listed, or the other way round", c)
		}
	}
	if live != s.live || live+free != int(s.used) {
		return fmt.Sprintf("%d live and %d free slots instead of %d of %d", live, free, s.live, s.used)
	}
	empty := 0
	for _, c := range s.chunks {
		if c == nil {
			empty++
		}
	}
	if empty != len(s.empty) {
		return fmt.Sprintf("%d chunks are nil, %d known as empty", empty, len(s.empty))
	}
	return ""
}

// samePolicy reports whether the policy in force is what its znode holds.
func samePolicy(t *Tree, have *policy.Policy) bool {
	defer func() { t.access.policy = have }()
	t.access.readPolicy()
	return reflect.DeepEqual(have, t.access.policy)
}
