package tree

import "github.com/zooid-project/zooid/jute"

// Grows reports whether a request would make the present tree larger. It returns false if the request can't be decoded.
// Any change of data does while open snapshots keep more than aside bytes of what has changed.
func (t *Tree) Grows(op jute.Op, body []byte, aside int64) bool {
	var d jute.Decoder
	d.Reset(body)
	switch op {
	case jute.OpSetData:
		path, data := d.String(), d.Buffer()
		return d.Err() == nil && t.larger(path, data, aside)
	case jute.OpSetACL:
		_ = d.String()
		return !t.acls.has(&d)
	case jute.OpMulti:
		ops, err := jute.DecodeMulti(&d)
		if err != nil {
			return false
		}
		for i := range ops {
			if o := &ops[i]; o.Op.IsCreate() || o.Op == jute.OpSetData && t.larger(o.Path, o.Data, aside) {
				return true
			}
		}
	}
	return op.IsCreate()
}

// has reports whether a znode has the ACL at d's position, compared in the form in which it was sent. It returns true
// for an ACL that can't be decoded.
func (a *aclTable) has(d *jute.Decoder) bool {
	rest, begin := d.Rest(), d.Offset()
	skipACL(d)
	if d.Err() != nil {
		return true
	}
	_, known := a.index[text(rest[:d.Offset()-begin])]
	return known
}

// larger reports whether a znode's data, with what is kept of the old for snapshots, would become larger.
func (z *znodes) larger(path string, data []byte, aside int64) bool {
	stat, ok := z.Stat(path)
	return ok && (len(data) > int(stat.DataLength) || z.Aside() > aside)
}
