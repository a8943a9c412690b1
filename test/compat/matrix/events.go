package matrix

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// A watchKind is a way to set a watch on a znode.
type watchKind struct {
	name  string
	watch func(path string) []step
}

func watchKinds() []watchKind {
	by := func(op jute.Op) func(path string) []step {
		return func(path string) []step { return one(op, (&jute.PathWatchRequest{Path: path, Watch: true}).Append) }
	}
	add := func(mode jute.AddWatchMode) func(path string) []step {
		return func(path string) []step {
			return one(jute.OpAddWatch, (&jute.AddWatchRequest{Path: path, Mode: mode}).Append)
		}
	}
	return []watchKind{
		{"exists", by(jute.OpExists)}, {"getData", by(jute.OpGetData)}, {"getChildren", by(jute.OpGetChildren)},
		{"exists of what is to come", func(path string) []step { return by(jute.OpExists)(path + "/c") }},
		{"addWatch persistent", add(jute.AddWatchPersistent)}, {"addWatch recursive", add(jute.AddWatchPersistentRecursive)},
	}
}

// eventCells returns kind of watch x permission x scheme x place x client. The ACL is on the watched znode, or on its
// child that the superuser creates, changes and deletes.
func eventCells() []cell {
	var cells []cell
	for _, k := range watchKinds() {
		for _, g := range grants() {
			for _, p := range []jute.Perm{0, jute.PermRead, jute.PermAll &^ jute.PermRead} {
				for place, on := range []string{"it", "its child"} {
					for who, identity := range identities() {
						name := fmt.Sprintf("events after %s with %s on %s for %s, to %s", k.name, permsName(p), on, g.name,
							identity.name)
						cells = append(cells, cell{name: name, who: who,
							make: func(root string) (prepare []jute.MultiOp, steps, after []step) {
								acls := [2][]jute.ACL{g.acl(p), open()}
								if place == 1 {
									acls[0], acls[1] = acls[1], acls[0]
								}
								path := root + "/n"
								after = append(after, single(node(path+"/c", acls[1]))...)
								for _, o := range []jute.MultiOp{
									setData(path+"/c", -1), setData(path, -1), remove(path+"/c", -1), remove(path, -1),
								} {
									after = append(after, single(o)...)
								}
								return []jute.MultiOp{node(path, acls[0])}, k.watch(path), after
							}})
					}
				}
			}
		}
	}
	return cells
}
