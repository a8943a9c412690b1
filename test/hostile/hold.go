package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The attacks of this file make servers hold memory: unread replies, requests that don't end, and watches.

const (
	// littleMemory is the memory.limit of the servers under these attacks.
	littleMemory = 256 << 20
	// holders is how many connections ask for a large list, or send a large request.
	holders = 300
	// watchers is how many connections set watches again, each pathsAtOnce with a request of some 900 KB.
	watchers    = 24
	pathsAtOnce = 20_000
	// leavers is how many connections send large writes and leave, leavings times each: 800 MB in all, since the servers'
	// logs keep everything.
	leavers  = 50
	leavings = 4
	// longParents is how many sessions have ephemerals below a path of nearly a megabyte, longEphemerals each if the
	// server allows it.
	longParents    = 4
	longEphemerals = 150
	// askers is how many connections ask for words with long answers.
	askers = 200
	// drip is the time between two bytes of those that read, or send, a byte now and then.
	drip = 4 * time.Second
)

// attackUnreadLists asks for a list of 16 MB on many connections, of which half read nothing and half a byte now and
// then.
func attackUnreadLists(f *field) error {
	root := hostileRoot + "-long"
	c := f.prepared()
	if c == nil {
		return nil
	}
	c.unpaced = true
	c.create(root, nil, jute.ModePersistent)
	for n := range 20 {
		c.call(jute.OpCreate, (&jute.CreateRequest{
			Path: fmt.Sprintf("%s/%d%s", root, n, strings.Repeat("x", 800_000)), ACL: jute.WorldACL(jute.PermAll),
		}).Append(nil))
	}
	c.close()
	f.begun()
	f.connected(holders, 40_000, func(i int, c *conn) {
		c.send(jute.OpGetChildren, readRecord(root))
		for b := make([]byte, 1); !f.over(); f.sleep(drip) {
			if c.send(jute.OpPing, nil) != nil {
				break
			}
			if i%2 == 0 {
				c.nc.SetReadDeadline(time.Now().Add(time.Second))
				c.nc.Read(b)
			}
		}
	})
	return nil
}

// attackUnreadSyncs asks for the sync of a path of nearly a megabyte, which the reply repeats, several times on many
// connections, and reads nothing.
func attackUnreadSyncs(f *field) error {
	attackUnread(f, func(c *conn, _ int) error {
		return c.send(jute.OpSync, jute.AppendString(nil, "/"+strings.Repeat("s", frameMax-1000)))
	})
	return nil
}

// attackUnreadMultis creates and deletes a znode whose name is half a megabyte long, which the reply repeats, several
// times on many connections, and reads nothing.
func attackUnreadMultis(f *field) error {
	attackUnread(f, func(c *conn, i int) error {
		path := fmt.Sprintf("%s/%d%s", hostileRoot, i, strings.Repeat("m", frameMax/2-1000))
		return c.send(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{
			{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)}, {Op: jute.OpDelete, Path: path, Version: -1},
		}))
	})
	return nil
}

// attackUnreadWatches sets a watch again on a path of nearly a megabyte that doesn't exist, which the notification
// repeats, several times on many connections, and reads nothing.
func attackUnreadWatches(f *field) error {
	attackUnread(f, func(c *conn, _ int) error {
		w := jute.SetWatches{Data: []string{"/" + strings.Repeat("v", frameMax-1000)}}
		return c.send(jute.OpSetWatches, w.Append(nil, jute.OpSetWatches))
	})
	return nil
}

// attackUnread sends a request several times on many connections, and reads nothing.
func attackUnread(f *field, send func(c *conn, i int) error) {
	f.connected(holders, 40_000, func(i int, c *conn) {
		c.unpaced = true
		for range 5 {
			if send(c, i) != nil {
				break
			}
		}
		for !f.over() && c.send(jute.OpPing, nil) == nil {
			f.sleep(drip)
		}
	})
}

// attackLeftWrites sends as much as a connection may have unanswered, in writes of three sizes, leaves at once and
// comes back, leavings times. Half of the clients close their sessions before, so that their writes are executed.
func attackLeftWrites(f *field) error {
	f.workers(leavers, func(i int, _ *rand.Rand) {
		kind := [...]struct{ size, n int }{{frameMax - 1000, 4}, {60 << 10, 68}, {900, 999}}[i%3]
		record := setRecord(hostileRoot, strings.Repeat("x", kind.size))
		for round := 0; round < leavings && !f.over(); round++ {
			c := orNil(f.connect(f.addr(i), 40_000))
			if c == nil {
				continue
			}
			c.unpaced = true
			for sent := 0; sent < kind.n && c.send(jute.OpSetData, record) == nil; sent++ {
			}
			if i%2 == 0 {
				c.send(jute.OpCloseSession, nil)
			}
			c.nc.(*net.TCPConn).CloseWrite() // a reset could come before the writes are read
			f.sleep(50 * time.Millisecond)
			c.close()
		}
	})
	return nil
}

// attackLongEphemerals ends sessions with many ephemerals that share a parent with a path of nearly a megabyte.
func attackLongEphemerals(f *field) error {
	c := f.prepared()
	if c == nil {
		return nil
	}
	parent := hostileRoot + "-" + strings.Repeat("e", frameMax-1000)
	c.create(parent, nil, jute.ModePersistent)
	c.close()
	f.workers(longParents, func(i int, _ *rand.Rand) {
		c := orNil(f.connect(f.addr(i), 40_000))
		if c == nil {
			return
		}
		defer c.close()
		c.unpaced = true
		for n := 0; n < longEphemerals && !f.over(); n++ {
			code, _, err := c.call(jute.OpCreate, (&jute.CreateRequest{
				Path: fmt.Sprintf("%s/%d-%d", parent, i, n), ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral,
			}).Append(nil))
			if err != nil || code != jute.OK {
				break
			}
		}
		c.call(jute.OpCloseSession, nil)
	})
	return nil
}

// attackLongWords sets watches on paths of 8 MB together, asks on many connections for the words that list them, and
// reads nothing.
func attackLongWords(f *field) error {
	for _, addr := range f.clients {
		c := orNil(f.connect(addr, 40_000))
		if c == nil {
			continue
		}
		defer c.close()
		c.unpaced = true
		for n := range 20 {
			path := fmt.Sprintf("%s/%d%s", hostileRoot, n, strings.Repeat("w", 400_000))
			c.call(jute.OpExists, (&jute.PathWatchRequest{Path: path, Watch: true}).Append(nil))
		}
	}
	f.workers(askers, func(i int, rng *rand.Rand) {
		for !f.over() {
			nc, err := f.dial(f.addr(i))
			if err != nil {
				continue
			}
			f.counts.requests.Add(1)
			io.WriteString(nc, []string{"wchp", "wchc", "dump"}[rng.IntN(3)])
			f.sleep(drip)
			nc.Close()
		}
	})
	return nil
}

// attackSlowRequests sends all but the last 500 bytes of a megabyte on many connections, and then a byte now and then.
func attackSlowRequests(f *field) error {
	f.connected(holders, 40_000, func(i int, c *conn) {
		c.unpaced = true
		frame := c.appendRequest(nil, jute.OpSetData, setRecord(hostileRoot, strings.Repeat("x", frameMax-1000)))
		sent := len(frame) - 500
		for err := c.write(frame[:sent]); err == nil && sent < len(frame) && !f.over(); sent++ {
			f.sleep(drip)
			err = c.write(frame[sent:][:1])
		}
	})
	return nil
}

// attackSetWatches says on many connections that they had watches, of new paths with each request, until they are
// closed, or leaves by itself. What clients leave behind is the next ones' to use.
func attackSetWatches(f *field) error {
	f.workers(watchers, func(i int, rng *rand.Rand) {
		for round := 0; !f.over(); round++ {
			c := orNil(f.connect(f.addr(i), 40_000))
			if c == nil {
				continue
			}
			c.unpaced = true
			requests := 1 + rng.IntN(60) // 60 would exceed the limit of one connection
			for n := 0; n < requests && !f.over(); n++ {
				list := make([]string, pathsAtOnce)
				for k := range list {
					list[k] = fmt.Sprintf("%s/%06d/%06d/%06d/%06d", hostileRoot, i, round, n, k)
				}
				w := jute.SetWatches{Exist: list}
				if n%2 > 0 {
					w = jute.SetWatches{Persistent: list}
				}
				if _, _, err := c.call(jute.OpSetWatches2, w.Append(nil, jute.OpSetWatches2)); err != nil {
					break
				}
			}
			c.close()
		}
	})
	return nil
}
