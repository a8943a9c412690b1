package traffic

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/zooid-project/zooid/jute"
)

// A Mix draws random requests for one client, over a small set of paths, so that clients interfere with each other.
// Every value written is unique, so a read identifies its writer. The recipes are the other generator of load: each
// generator does things that the other never does.
type Mix struct {
	Root string // must exist; all paths are below it
	Name string // unique among the clients of a run
	Wide int    // names per level; 0 means 6
	TTL  bool   // create TTL znodes too
	Life int64  // lifetime of TTL znodes, ms; 0 means longer than any run
	// Persistent: set persistent and recursive watches, never one-shot ones. Apache before 3.9 confuses them when one
	// client sets both on a path.
	Persistent bool
	// OneModePerPath: never set both a persistent and a recursive watch on one path. Apache before 3.9 keeps only the
	// last one.
	OneModePerPath bool
	// Identity, if its scheme is set, is an identity of this client. Some ACLs name it.
	Identity jute.ID

	Rand *rand.Rand

	serial int
}

// mixWeights has the kinds of request with their weights, relative to the sum.
var mixWeights = [...]struct {
	weight int
	draw   func(*Mix) (jute.Op, []byte)
}{
	{18, (*Mix).GetData},
	{8, (*Mix).exists},
	{12, (*Mix).getChildren},
	{3, (*Mix).getACL},
	{20, (*Mix).setData},
	{14, (*Mix).create},
	{6, (*Mix).sequence},
	{9, (*Mix).delete},
	{2, (*Mix).setACL},
	{6, (*Mix).multi},
	{2, (*Mix).multiRead},
	{3, (*Mix).sync},
	{1, (*Mix).numbers},
	{2, (*Mix).watch},
}

// Next draws a request: its operation and its encoded record.
func (g *Mix) Next() (jute.Op, []byte) {
	sum := 0
	for i := range mixWeights {
		sum += mixWeights[i].weight
	}
	at := g.Rand.IntN(sum)
	for i := range mixWeights {
		if at -= mixWeights[i].weight; at < 0 {
			return mixWeights[i].draw(g)
		}
	}
	panic("check: the weights of the mix don't add up")
}

// Value returns data that have not been used before.
func (g *Mix) Value() []byte {
	g.serial++
	return fmt.Appendf(nil, "%s-%d", g.Name, g.serial)
}

// path draws a path one, two or, rarely, three levels below the root.
func (g *Mix) path() string {
	wide := cmp.Or(g.Wide, 6)
	p := g.Root + "/" + string(rune('a'+g.Rand.IntN(wide)))
	for depth := 0; depth < 2 && g.Rand.IntN(3) == 0; depth++ {
		p += "/" + string(rune('a'+g.Rand.IntN(wide)))
	}
	return p
}

func (g *Mix) watchFlag() bool { return !g.Persistent && g.Rand.IntN(4) == 0 }

func (g *Mix) version() int32 {
	if g.Rand.IntN(3) == 0 {
		return int32(g.Rand.IntN(4))
	}
	return -1
}

func (g *Mix) acl() []jute.ACL {
	if g.Identity.Scheme == "" || g.Rand.IntN(8) > 0 {
		return jute.WorldACL(jute.PermAll)
	}
	mine := jute.ACL{Perms: jute.PermAll, ID: g.Identity}
	switch g.Rand.IntN(4) {
	case 0:
		return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	case 1:
		return []jute.ACL{mine}
	case 2:
		return append(jute.WorldACL(jute.PermRead|jute.PermCreate|jute.PermDelete), mine)
	}
	return append(jute.WorldACL(jute.PermWrite|jute.PermCreate|jute.PermDelete), mine)
}

// GetData draws a read of data.
func (g *Mix) GetData() (jute.Op, []byte) {
	r := jute.PathWatchRequest{Path: g.path(), Watch: g.watchFlag()}
	return jute.OpGetData, r.Append(nil)
}

func (g *Mix) exists() (jute.Op, []byte) {
	r := jute.PathWatchRequest{Path: g.path(), Watch: g.watchFlag()}
	return jute.OpExists, r.Append(nil)
}

func (g *Mix) getChildren() (jute.Op, []byte) {
	r := jute.PathWatchRequest{Path: g.path(), Watch: g.watchFlag()}
	if g.Rand.IntN(4) == 0 {
		r.Path = g.Root
	}
	if g.Rand.IntN(2) == 0 {
		return jute.OpGetChildren, r.Append(nil)
	}
	return jute.OpGetChildren2, r.Append(nil)
}

func (g *Mix) getACL() (jute.Op, []byte) {
	r := jute.PathRequest{Path: g.path()}
	return jute.OpGetACL, r.Append(nil)
}

func (g *Mix) setData() (jute.Op, []byte) {
	r := jute.SetDataRequest{Path: g.path(), Data: g.Value(), Version: g.version()}
	return jute.OpSetData, r.Append(nil)
}

func (g *Mix) create() (jute.Op, []byte) {
	r := jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: g.path(), Data: g.Value(), ACL: g.acl()}, TTL: cmp.Or(g.Life, 1e9),
	}
	switch g.Rand.IntN(8) {
	case 0, 1, 2:
		r.Flags = jute.ModeEphemeral
	case 3:
		r.Flags = jute.ModeContainer
		return jute.OpCreateContainer, r.CreateRequest.Append(nil)
	case 4:
		if g.TTL {
			r.Flags = jute.ModePersistentWithTTL
			return jute.OpCreateTTL, r.Append(nil)
		}
	}
	if g.Rand.IntN(2) == 0 {
		return jute.OpCreate, r.CreateRequest.Append(nil)
	}
	return jute.OpCreate2, r.CreateRequest.Append(nil)
}

func (g *Mix) sequence() (jute.Op, []byte) {
	r := jute.CreateRequest{
		Path: g.path() + "/q-", Data: g.Value(), ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeralSequential,
	}
	if g.Rand.IntN(2) == 0 {
		return jute.OpCreate, r.Append(nil)
	}
	return jute.OpCreate2, r.Append(nil)
}

func (g *Mix) delete() (jute.Op, []byte) {
	r := jute.PathVersionRequest{Path: g.path(), Version: g.version()}
	return jute.OpDelete, r.Append(nil)
}

func (g *Mix) setACL() (jute.Op, []byte) {
	r := jute.SetACLRequest{Path: g.path(), ACL: g.acl(), Version: -1}
	return jute.OpSetACL, r.Append(nil)
}

func (g *Mix) multi() (jute.Op, []byte) {
	ops := make([]jute.MultiOp, 1+g.Rand.IntN(4))
	for i := range ops {
		o := &ops[i]
		o.Path, o.Version = g.path(), -1
		switch g.Rand.IntN(8) {
		case 0, 1, 2:
			o.Op, o.Data = jute.OpSetData, g.Value()
		case 3, 4:
			o.Op, o.Data, o.ACL = jute.OpCreate, g.Value(), jute.WorldACL(jute.PermAll)
			if g.Rand.IntN(2) == 0 {
				o.Flags = jute.ModeEphemeral
			}
		case 5:
			o.Op, o.Data, o.ACL = jute.OpCreate2, g.Value(), jute.WorldACL(jute.PermAll)
		case 6:
			o.Op = jute.OpDelete
		case 7:
			o.Op = jute.OpCheck
		}
	}
	return jute.OpMulti, jute.AppendMulti(nil, ops)
}

func (g *Mix) multiRead() (jute.Op, []byte) {
	ops := make([]jute.MultiOp, 1+g.Rand.IntN(4))
	for i := range ops {
		ops[i].Op, ops[i].Path = jute.OpGetData, g.path()
		if g.Rand.IntN(2) == 0 {
			ops[i].Op = jute.OpGetChildren
		}
	}
	return jute.OpMultiRead, jute.AppendMulti(nil, ops)
}

func (g *Mix) sync() (jute.Op, []byte) {
	r := jute.PathRequest{Path: g.Root}
	return jute.OpSync, r.Append(nil)
}

func (g *Mix) numbers() (jute.Op, []byte) {
	r := jute.PathRequest{Path: g.Root}
	if g.Rand.IntN(2) == 0 {
		return jute.OpGetAllChildrenNumber, r.Append(nil)
	}
	return jute.OpGetEphemerals, r.Append(nil)
}

func (g *Mix) watch() (jute.Op, []byte) {
	path := g.path()
	if g.Rand.IntN(3) == 0 {
		path = g.Root
	}
	switch {
	case !g.Persistent:
		r := jute.PathWatchRequest{Path: path, Watch: true}
		return jute.OpExists, r.Append(nil)
	case g.Rand.IntN(4) == 0:
		r := jute.WatchesRequest{Path: path, Type: jute.WatcherAny}
		return jute.OpRemoveWatches, r.Append(nil)
	}
	r := jute.AddWatchRequest{Path: path, Mode: jute.AddWatchMode(g.Rand.IntN(2))}
	if g.OneModePerPath {
		r.Mode = jute.AddWatchMode(path[len(path)-1] & 1)
	}
	return jute.OpAddWatch, r.Append(nil)
}
