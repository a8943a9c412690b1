package shadow

import "sort"

// zxidsMax is how many zxids are remembered, for clients that set their watches again after a reconnection.
const zxidsMax = 65_536

// A zxidMap maps zxids of the primary to the shadow's zxids with the same state. Both increase.
type zxidMap []struct{ primary, shadow int64 }

// add notes that the shadow's state at its zxid equals the primary's at primary.
func (m *zxidMap) add(primary, shadow int64) {
	all := *m
	if n := len(all); n > 0 && primary <= all[n-1].primary {
		if primary == all[n-1].primary {
			all[n-1].shadow = max(all[n-1].shadow, shadow)
		}
		return
	}
	all = append(all, struct{ primary, shadow int64 }{primary, shadow})
	if len(all) > 2*zxidsMax {
		all = append(all[:0:0], all[zxidsMax:]...)
	}
	*m = all
}

// at returns the shadow's zxid with the state that the primary had at zxid; false if it is no longer remembered.
func (m zxidMap) at(zxid int64) (int64, bool) {
	i := sort.Search(len(m), func(i int) bool { return m[i].primary > zxid })
	if i == 0 {
		return 0, false
	}
	return m[i-1].shadow, true
}
