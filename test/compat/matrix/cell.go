package matrix

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A cell is a question put to both servers.
type cell struct {
	name string // the request, and the ACL
	who  int    // the asking client, an index of identities()
	// make returns the superuser's preparations, the client's requests and the superuser's later requests. root is the
	// cell's own znode, which exists and is open to all.
	make func(root string) (prepare []jute.MultiOp, steps, after []step)
}

// cellsRoot is the parent of all cells' znodes.
const cellsRoot = "/m"

func rootOf(n int) string { return fmt.Sprintf("%s/%d", cellsRoot, n) }

// cellOf returns the number of the cell that a path belongs to, or -1.
func cellOf(path string) int {
	n := -1
	if rest, ok := strings.CutPrefix(path, cellsRoot+"/"); ok {
		fmt.Sscanf(rest, "%d", &n)
	}
	return n
}

func open() []jute.ACL { return jute.WorldACL(jute.PermAll) }

// singlePerms returns no permission, each single one, and all together.
func singlePerms() []jute.Perm { return []jute.Perm{0, 1, 2, 4, 8, 16, jute.PermAll} }

// missingPerms returns all sets that lack exactly one permission.
func missingPerms() []jute.Perm { return []jute.Perm{30, 29, 27, 23, 15} }

// A grant says which identities get the permissions of an ACL.
type grant struct {
	name string
	ids  []jute.ID
}

// grants returns at least one grant for each scheme, and one to two identities at once.
func grants() []grant {
	of := func(scheme, id string) grant {
		return grant{name: scheme + ":" + id, ids: []jute.ID{{Scheme: scheme, ID: id}}}
	}
	several := grant{
		name: "bob by digest and ann by SASL", ids: []jute.ID{{Scheme: "digest", ID: bobDigest}, {Scheme: "sasl", ID: "ann"}},
	}
	return []grant{
		of("world", "anyone"), of("digest", annDigest), of("ip", loopback), of("ip", "126.0.0.0/7"),
		of("sasl", "ann"), of("x509", "CN=ann"), several,
	}
}

func (g *grant) acl(p jute.Perm) []jute.ACL {
	var acl []jute.ACL
	for _, id := range g.ids {
		acl = append(acl, jute.ACL{Perms: p, ID: id})
	}
	return acl
}

func permsName(p jute.Perm) string {
	if p == 0 {
		return "nothing"
	}
	return p.String()
}

func node(path string, acl []jute.ACL) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Path: path, Data: []byte("data"), ACL: acl}
}

func one(op jute.Op, body func([]byte) []byte) []step { return []step{{op, body}} }

func multi(op jute.Op, ops ...jute.MultiOp) []step {
	return one(op, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
}

// single returns an operation of a multi as a separate request.
func single(o jute.MultiOp) []step { return one(o.Op, o.Append) }
