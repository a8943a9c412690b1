package check

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// An item is one step of the sweep: an answered request, or in exact mode also
// an entry of the servers' log.
type item struct {
	key uint64 // zxid<<1, plus 1 for a read, so that a write precedes the reads of its zxid
	ref int32  // index of the op, or ^index of the entry
}

func (it item) zxid() int64 { return int64(it.key >> 1) }

func writeKey(zxid int64) uint64 { return uint64(zxid) << 1 }
func readKey(zxid int64) uint64  { return uint64(zxid)<<1 | 1 }

// sortItems sorts by key and is stable. It is a radix sort over the bytes in which keys differ.
func sortItems(items []item) []item {
	if len(items) == 0 {
		return items
	}
	var differ uint64
	for i := range items {
		differ |= items[i].key ^ items[0].key
	}
	out := make([]item, len(items))
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var start [257]int
		for i := range items {
			start[items[i].key>>shift&0xff+1]++
		}
		for b := 1; b < 256; b++ {
			start[b] += start[b-1]
		}
		for _, it := range items {
			b := it.key >> shift & 0xff
			out[start[b]] = it
			start[b]++
		}
		items, out = out, items
	}
	return items
}

// place puts the answered requests in the order of zxids.
func (c *checker) place() []item {
	items := make([]item, 0, len(c.ops))
	for i := range c.ops {
		o := &c.ops[i]
		switch {
		case o.rep < 0 || !o.numbered() || o.conn.session == nil:
		case !o.kind.IsWrite():
			items = append(items, item{readKey(o.zxid), int32(i)})
		case c.exact || o.unordered() || c.unwritten(o.conn.session):
		default:
			if o.own != o.zxid && !c.opt.ReadWindow {
				c.violate(X2,
					fmt.Sprintf("the reply to a %s carries zxid %#x, its Stat says the change was %#x", o.kind, o.zxid, o.own),
					int(o.rep), int(o.req))
			}
			if !c.taken.add(o.own) {
				c.violate(X5, fmt.Sprintf("two writes have zxid %#x", o.own), int(o.rep))
			}
			items = append(items, item{writeKey(o.own), int32(i)})
		}
	}
	return items
}

// ownZxid returns the zxid of an acknowledged write: the mzxid in the Stat of its reply if there is one, otherwise the
// zxid in the header.
func ownZxid(o *op, reply []byte) int64 {
	if o.code != jute.OK || o.kind == jute.OpSetACL {
		return o.zxid
	}
	if g, ok := lastStat(o.kind, reply); ok && g.Mzxid > 0 {
		return g.Mzxid
	}
	return o.zxid
}
