package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// OpRestore is the operation of an entry at which servers replaced their whole tree by a snapshot's. Its body, which
// the writer of the history's log composes, is an int with the number of sessions that it has ended, the ids of those
// sessions as longs, and then the znodes:
//
//	ustring path | byte kind | long time to live | long czxid | long mzxid | long pzxid |
//	long ctime | long mtime | int version | int aversion | long created | vector<ACL> | buffer data
//
// The kind is 0 for a persistent znode, 2 for a container, 3 for a TTL znode. The root comes first, and each parent
// before its children. Ephemerals are removed, and no watch fires.
const OpRestore jute.Op = -27

// restoreEnds ends the sessions that an OpRestore has ended. That isn't an expiry.
func (c *checker) restoreEnds(e *history.Entry) {
	d := jute.NewDecoder(e.Body)
	for range max(d.Count(8), 0) {
		if s := c.sessions[d.Long()]; s != nil && s.endZxid == 0 {
			s.endZxid, s.endEvent = e.Zxid, -1
		}
	}
}

// endedByRestore reports whether an OpRestore has ended a session.
func (c *checker) endedByRestore(id int64) bool {
	for i := range c.h.Servers {
		for j := range c.h.Servers[i].Entries {
			e := &c.h.Servers[i].Entries[j]
			if e.Op != OpRestore {
				continue
			}
			d := jute.NewDecoder(e.Body)
			for range max(d.Count(8), 0) {
				if d.Long() == id {
					return true
				}
			}
		}
	}
	return false
}

// restore gives every node its state in the entry, or removes it.
func (m *model) restore(r *request) {
	d := jute.NewDecoder(*r.body)
	for range max(d.Count(8), 0) {
		d.Long()
	}
	next := map[string]*state{}
	var order []string
	stamps := map[int64]*stamp{}
	at := func(zxid, ms int64) *stamp {
		if stamps[ms] == nil {
			stamps[ms] = &stamp{zxid: zxid, ms: ms, known: true}
		}
		return stamps[ms]
	}
	for len(d.Rest()) > 0 && d.Err() == nil {
		path, kind := d.String(), d.Byte()
		d.Long()
		s := m.newState(&state{czxid: d.Long(), mzxid: d.Long(), pzxid: d.Long()})
		s.ctime, s.mtime = at(s.czxid, d.Long()), at(s.mzxid, d.Long())
		s.version, s.aversion = d.Int(), d.Int()
		s.creations = int32(d.Long())
		s.acl = acls.Decode(d)
		s.open, s.data = acls.Open(s.acl), slices.Clone(d.Buffer())
		s.life = map[byte]lifetime{2: container, 3: withTTL}[kind]
		next[path], order = s, append(order, path)
		if up := next[parentPath(path)]; up != nil && path != "/" {
			up.numChildren++
		}
	}
	all := slices.SortedFunc(maps.Keys(m.nodes), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	for _, path := range all { // children before their parents
		if n := m.nodes[path]; !n.opaque && n.now() != nil && next[path] == nil {
			m.set(n, r.zxid, m.newState(&state{absent: true, ended: n.now().life == ephemeral}))
		}
	}
	for _, path := range order {
		if n := m.node(path); !n.opaque {
			m.set(n, r.zxid, next[path])
		}
	}
}
