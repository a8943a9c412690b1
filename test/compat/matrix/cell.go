package matrix

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A cell is one question to both servers.
type cell struct {
	name string // what is asked, and under which ACL
	who  int    // who asks, of identities()
	// make returns what the superuser prepares, what the client asks and what the superuser does after that. Root
	// is the cell's own znode, which exists; it is open to all.
	make func(root string) (prepare []jute.MultiOp, steps, after []step)
}

// cellsRoot is where the cells' subtrees are.
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

// singlePerms are no permission, each alone, and all.
func singlePerms() []jute.Perm { return []jute.Perm{0, 1, 2, 4, 8, 16, jute.PermAll} }

// missingPerms are all permissions but one.
func missingPerms() []jute.Perm { return []jute.Perm{30, 29, 27, 23, 15} }

// A grant is who an ACL gives the permissions to.
type grant struct {
	name string
	ids  []jute.ID
}

// grants are one for each scheme, and each way to miss.
func grants() []grant {
	of := func(scheme, id string) grant {
		return grant{name: scheme + ":" + id, ids: []jute.ID{{Scheme: scheme, ID: id}}}
	}
	several := grant{name: "bob by digest and ann by SASL", ids: []jute.ID{{Scheme: "digest", ID: bobDigest}, {Scheme: "sasl", ID: "ann"}}}
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

// single returns an operation of a multi as a request of its own.
func single(o jute.MultiOp) []step { return one(o.Op, o.Append) }
