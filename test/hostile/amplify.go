package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// attackIdentities gives connections identities as large as a frame, and then writes.
func attackIdentities(f *field) error {
	f.sessions(2, func(_ int, c *conn, _ extreme) {
		c.unpaced = true
		for n := range 63 {
			user := fmt.Sprintf("%d%s:x", n, strings.Repeat("u", frameMax-100))
			if c.send(jute.OpAuth, authRecord(user)) != nil || f.over() {
				break
			}
		}
		for range 20 {
			if c.send(jute.OpSetData, setRecord(hostileRoot, "x")) != nil {
				break
			}
		}
		f.sleep(3 * time.Second)
	})
	return nil
}

// attackAuthACLs sends multis with ACL entries that each stand for all
// identities of the connection.
func attackAuthACLs(f *field) error {
	f.sessions(2, func(i int, c *conn, x extreme) {
		for n := range 63 {
			c.send(jute.OpAuth, authRecord(fmt.Sprintf("%d%s:x", n, strings.Repeat("u", 40))))
		}
		for !f.over() {
			acl := make([]jute.ACL, 1000)
			for k := range acl {
				acl[k] = jute.ACL{Perms: jute.Perm(k), ID: jute.ID{Scheme: "auth"}}
			}
			ops := make([]jute.MultiOp, 40)
			for k := range ops {
				path := fmt.Sprintf("%s/acl%d.%d", hostileRoot, i, x.IntN(1000))
				ops[k] = jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: acl}
			}
			record := jute.AppendMulti(nil, ops)
			if len(record) > frameMax-jute.RequestHeaderSize || c.send(jute.OpMulti, record) != nil {
				break
			}
		}
	})
	return nil
}

// attackMultiRead asks for a large znode thousands of times in one request.
func attackMultiRead(f *field) error {
	large := f.createLarge()
	f.sessions(6, func(_ int, c *conn, _ extreme) {
		c.unpaced = true
		ops := make([]jute.MultiOp, 2500)
		for k := range ops {
			ops[k] = jute.MultiOp{Op: jute.OpGetData, Path: large}
		}
		record := jute.AppendMulti(nil, ops)
		for n := 0; n < 10 && !f.over() && c.send(jute.OpMultiRead, record) == nil; n++ {
			f.sleep(100 * time.Millisecond)
		}
	})
	return nil
}

// countedZnodes is the size of the subtrees that attackCounting and attackQuotas have the servers count.
const countedZnodes = 100_000

// attackCounting creates a large subtree and sends requests that walk over it,
// again and again.
func attackCounting(f *field) error {
	root := hostileRoot + "-many"
	c := orNil(f.connect(f.addr(0), 40_000))
	if c == nil {
		return nil
	}
	defer c.close()
	if !c.createMany(root) {
		return nil
	}
	f.sessions(8, func(_ int, c *conn, x extreme) {
		c.unpaced = true
		for !f.over() {
			var b []byte
			op := pick(x, []jute.Op{
				jute.OpGetAllChildrenNumber, jute.OpGetAllChildrenNumber, jute.OpGetChildren2, jute.OpGetEphemerals,
			})
			for len(b) < 60<<10 {
				b = c.appendRequest(b, op, (&jute.PathRequest{Path: root}).Append(nil))
			}
			if op == jute.OpGetChildren2 {
				b = c.appendRequest(nil, op, readRecord(root))
			}
			if c.write(b) != nil {
				break
			}
		}
	})
	return nil
}

// createMany creates countedZnodes below root, if time allows. It returns false if the connection ends.
func (c *conn) createMany(root string) bool {
	c.create(root, nil, jute.ModePersistent)
	const perMulti = 1000
	for n := 0; n < countedZnodes && !c.f.over(); n += perMulti {
		ops := make([]jute.MultiOp, perMulti)
		for k := range ops {
			ops[k] = creation(fmt.Sprintf("%s/%d", root, n+k), 0)
		}
		if _, _, err := c.call(jute.OpMulti, jute.AppendMulti(nil, ops)); err != nil {
			return false
		}
	}
	return true
}

// attackReconfig asks for memberships that name a listener of its own: a server
// that may not reconfigure must not dial the addresses in the request.
func attackReconfig(f *field) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil
	}
	defer l.Close()
	dialled := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			dialled <- c
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	f.sessions(4, func(_ int, c *conn, x extreme) {
		for n := 0; n < 20 && !f.over(); n++ {
			var text bytes.Buffer
			for id := range 1 + x.IntN(1000) {
				fmt.Fprintf(&text, "server.%d=127.0.0.1:%d:%d:participant;1\n", id+4, port, port)
			}
			members := text.String()
			q := jute.ReconfigRequest{Joining: &members, CurConfigID: -1}
			if x.IntN(2) == 0 {
				q = jute.ReconfigRequest{NewMembers: &members, CurConfigID: x.long()}
			}
			if c.send(jute.OpReconfig, q.Append(nil)) != nil {
				break
			}
		}
		f.sleep(100 * time.Millisecond)
	})
	select {
	case c := <-dialled:
		c.Close()
		return fmt.Errorf("a server that may not be reconfigured dialled %s, which only the request named", l.Addr())
	default:
		return nil
	}
}
