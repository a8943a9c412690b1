package matrix

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"math"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// digestOf returns the id in the scheme digest of user:password.
func digestOf(credential string) string {
	sum := sha1.Sum([]byte(credential))
	user, _, _ := strings.Cut(credential, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

var annDigest, bobDigest = digestOf("ann:secret"), digestOf("bob:secret")

// ttl (ms) is longer than a run.
const ttl = 10_000_000

// A request is a kind of question about a znode.
type request struct {
	name   string
	parent bool // the znode needs a child, /x
	steps  func(path string) []step
}

// requests returns all requests about a znode, alone and in a multi, with and without success.
func requests() []request {
	var all []request
	add := func(name string, steps func(path string) []step) {
		all = append(all, request{name: name, steps: steps})
	}
	ofParent := func(name string, steps func(path string) []step) {
		all = append(all, request{name: name, parent: true, steps: steps})
	}
	// Apache visits all znodes, of which there are few at first.
	ofParent("getAllChildrenNumber", func(path string) []step {
		return one(jute.OpGetAllChildrenNumber, (&jute.PathRequest{Path: path}).Append)
	})
	add("getAllChildrenNumber of none", func(path string) []step {
		return one(jute.OpGetAllChildrenNumber, (&jute.PathRequest{Path: path + "/none"}).Append)
	})
	// Operations of a multi are also asked alone.
	for _, o := range writes() {
		if o.alone {
			add(o.name, func(path string) []step { return single(o.at(path)) })
		}
		add("multi of "+o.name, func(path string) []step { return multi(jute.OpMulti, o.at(path)) })
	}
	ofParent("delete of a parent", func(path string) []step { return single(remove(path, -1)) })
	add("multi that is open, then setData", func(path string) []step {
		return multi(jute.OpMulti, node(openPath(path)+"/new", open()), setData(path, -1))
	})
	add("multi of setData, then open", func(path string) []step {
		return multi(jute.OpMulti, setData(path, -1), node(openPath(path)+"/new", open()))
	})
	add("multi of create, setData, delete of one znode", func(path string) []step {
		return multi(jute.OpMulti, node(path+"/c", open()), setData(path+"/c", 0), remove(path+"/c", 1))
	})
	for _, op := range []jute.Op{jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2} {
		ofParent(op.String(), func(path string) []step { return one(op, (&jute.PathWatchRequest{Path: path}).Append) })
		ofParent(op.String()+", watching", func(path string) []step {
			return one(op, (&jute.PathWatchRequest{Path: path, Watch: true}).Append)
		})
		add(op.String()+" of none, watching", func(path string) []step {
			return one(op, (&jute.PathWatchRequest{Path: path + "/none", Watch: true}).Append)
		})
	}
	for _, op := range []jute.Op{jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals} {
		ofParent(op.String(), func(path string) []step { return one(op, (&jute.PathRequest{Path: path}).Append) })
		add(op.String()+" of none",
			func(path string) []step { return one(op, (&jute.PathRequest{Path: path + "/none"}).Append) })
	}
	add("create of an ephemeral znode, then getEphemerals", func(path string) []step {
		return append(single(ephemeral(path+"/e")), one(jute.OpGetEphemerals, (&jute.PathRequest{Path: path}).Append)...)
	})
	for _, version := range []int32{-1, 7} {
		add(fmt.Sprintf("setACL of version %d", version), func(path string) []step {
			return one(jute.OpSetACL, (&jute.SetACLRequest{Path: path, ACL: open(), Version: version}).Append)
		})
	}
	add("setACL of none", func(path string) []step {
		return one(jute.OpSetACL, (&jute.SetACLRequest{Path: path + "/none", ACL: open(), Version: -1}).Append)
	})
	for _, op := range []jute.Op{jute.OpGetData, jute.OpGetChildren} {
		ofParent("multiRead of "+op.String(), func(path string) []step {
			return multi(jute.OpMultiRead, jute.MultiOp{Op: op, Path: path})
		})
	}
	ofParent("multiRead of four", func(path string) []step {
		return multi(jute.OpMultiRead, jute.MultiOp{Op: jute.OpGetData, Path: path + "/none"},
			jute.MultiOp{Op: jute.OpGetChildren, Path: path},
			jute.MultiOp{Op: jute.OpGetData, Path: path}, jute.MultiOp{Op: jute.OpGetData, Path: openPath(path)})
	})
	add("ping", func(string) []step { return one(jute.OpPing, nil) })
	add("whoAmI", func(string) []step { return one(jute.OpWhoAmI, nil) })
	return append(all, watchRequests()...)
}

// watchRequests returns the requests about watches.
func watchRequests() []request {
	var all []request
	const anyKind = 3
	about := func(op jute.Op, path string, kind jute.WatcherType) []step {
		return one(op, (&jute.WatchesRequest{Path: path, Type: kind}).Append)
	}
	for _, mode := range []jute.AddWatchMode{jute.AddWatchPersistent, jute.AddWatchPersistentRecursive} {
		all = append(all, request{name: "addWatch " + mode.String() + ", checkWatches, removeWatches, checkWatches",
			steps: func(path string) []step {
				steps := one(jute.OpAddWatch, (&jute.AddWatchRequest{Path: path, Mode: mode}).Append)
				for _, op := range []jute.Op{jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCheckWatches} {
					steps = append(steps, about(op, path, anyKind)...)
				}
				return steps
			}})
	}
	for _, op := range []jute.Op{jute.OpCheckWatches, jute.OpRemoveWatches} {
		all = append(all,
			request{name: op.String() + " without a watch", steps: func(path string) []step { return about(op, path, 2) }})
	}
	for _, op := range []jute.Op{jute.OpSetWatches, jute.OpSetWatches2} {
		for _, zxid := range []int64{0, math.MaxInt64} {
			all = append(all, request{name: fmt.Sprintf("%v since %#x", op, zxid), steps: func(path string) []step {
				paths := []string{path, path + "/none"}
				w := jute.SetWatches{
					RelativeZxid: zxid, Data: paths, Exist: paths, Child: paths, Persistent: paths, PersistentTree: paths,
				}
				return one(op, func(b []byte) []byte { return w.Append(b, op) })
			}})
		}
	}
	return all
}

// A write is an operation that can be part of a multi.
type write struct {
	name  string
	alone bool // it can also be a request of its own
	at    func(path string) jute.MultiOp
}

func writes() []write {
	create := func(op jute.Op, mode jute.CreateMode, name string) func(path string) jute.MultiOp {
		return func(path string) jute.MultiOp {
			o := jute.MultiOp{Op: op, Path: path + name, Data: []byte("new"), ACL: open(), Flags: mode}
			if mode.TTL() {
				o.TTL = ttl
			}
			return o
		}
	}
	return []write{
		{"create", true, create(jute.OpCreate, jute.ModePersistent, "/c")},
		{"create of an ephemeral znode", true, create(jute.OpCreate, jute.ModeEphemeral, "/c")},
		{"create of a sequential znode", true, create(jute.OpCreate, jute.ModePersistentSequential, "/c-")},
		{"create of what exists", true, create(jute.OpCreate, jute.ModePersistent, "")},
		{"create below none", true, create(jute.OpCreate, jute.ModePersistent, "/none/c")},
		{"create2", true, create(jute.OpCreate2, jute.ModePersistent, "/c")},
		{"createContainer", true, create(jute.OpCreateContainer, jute.ModeContainer, "/c")},
		{"createTTL", true, create(jute.OpCreateTTL, jute.ModePersistentWithTTL, "/c")},
		{"createTTL of a sequential znode", true, create(jute.OpCreateTTL, jute.ModePersistentSequentialWithTTL, "/c-")},
		{"delete", true, func(path string) jute.MultiOp { return remove(path, -1) }},
		{"delete of version 7", true, func(path string) jute.MultiOp { return remove(path, 7) }},
		{"delete of none", true, func(path string) jute.MultiOp { return remove(path+"/none", -1) }},
		{"setData", true, func(path string) jute.MultiOp { return setData(path, -1) }},
		{"setData of version 7", true, func(path string) jute.MultiOp { return setData(path, 7) }},
		{"setData of none", true, func(path string) jute.MultiOp { return setData(path+"/none", -1) }},
		{"check", false, func(path string) jute.MultiOp { return check(path, 0) }},
		{"check of version 7", false, func(path string) jute.MultiOp { return check(path, 7) }},
		{"check of none", false, func(path string) jute.MultiOp { return check(path+"/none", -1) }},
	}
}

func setData(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpSetData, Path: path, Data: []byte("changed"), Version: version}
}

func remove(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpDelete, Path: path, Version: version}
}

func check(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCheck, Path: path, Version: version}
}

func ephemeral(path string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: open(), Flags: jute.ModeEphemeral}
}

// openPath returns the cell's own znode, which is open to all, given the path of the znode in question.
func openPath(path string) string { return rootOf(cellOf(path)) }

// An exposure is an ACL and the znode that has it.
type exposure struct {
	grant grant
	perms jute.Perm
	on    string
	place int // which of /p and /p/n has the ACL
}

const (
	onParent = iota
	onIt
)

// exposures returns permission x scheme x place. The single permissions on the parent, and combinations of
// permissions, are tried only with the first two schemes.
func exposures() []exposure {
	var all []exposure
	for i, g := range grants() {
		for _, p := range singlePerms() {
			all = append(all, exposure{g, p, "it", onIt})
		}
		if i >= 2 {
			continue
		}
		for _, p := range missingPerms() {
			all = append(all, exposure{g, p, "it", onIt})
		}
		for _, p := range append(singlePerms(), missingPerms()...) {
			all = append(all, exposure{g, p, "its parent", onParent})
		}
	}
	return all
}

// requestCells returns operation x permission x scheme x place x client. Each cell has two more znodes, /p and /p/n;
// one of them has the ACL, and the request is about /p/n.
func requestCells() []cell {
	var cells []cell
	for _, r := range requests() {
		for _, e := range exposures() {
			for who, identity := range identities() {
				name := fmt.Sprintf("%s with %s on %s for %s, by %s", r.name, permsName(e.perms), e.on, e.grant.name, identity.name)
				cells = append(cells, cell{name: name, who: who,
					make: func(root string) (prepare []jute.MultiOp, steps, after []step) {
						acls := [2][]jute.ACL{open(), open()}
						acls[e.place] = e.grant.acl(e.perms)
						path := root + "/p/n"
						prepare = append(prepare, node(root+"/p", acls[0]), node(path, acls[1]))
						if r.parent {
							prepare = append(prepare, node(path+"/x", open()))
						}
						return prepare, r.steps(path), nil
					}})
			}
		}
	}
	return cells
}
