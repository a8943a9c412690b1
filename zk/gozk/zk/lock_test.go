package zk_test

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk/gozk/zk"
	"github.com/zooid-project/zooid/zktest"
)

// A lock whose znode was deleted can be used again.
func TestLockAfterItsZnodeIsGone(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c := connected(t, e)
	l := zk.NewLock(c, "/lock", zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		t.Fatal(err)
	}
	names, _, err := c.Children("/lock")
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if err := c.Delete("/lock/"+names[0], -1); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != zk.ErrNoNode {
		t.Errorf("unlock of a lost lock: %v, want ErrNoNode", err)
	}
	if err := l.Lock(); err != nil {
		t.Errorf("lock again: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// A lostNetwork fails at a client's first list of children, and stays down until the test restores it.
type lostNetwork struct {
	armed, away atomic.Bool
}

func (n *lostNetwork) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if n.away.Load() {
		return nil, errors.New("the network is away")
	}
	conn, err := net.DialTimeout(network, address, timeout)
	return &lostConn{conn, n}, err
}

type lostConn struct {
	net.Conn
	n *lostNetwork
}

func (c *lostConn) Write(b []byte) (int, error) {
	if len(b) >= 12 && c.n.armed.Load() {
		if op := jute.Op(int32(binary.BigEndian.Uint32(b[8:]))); op == jute.OpGetChildren || op == jute.OpGetChildren2 {
			c.n.away.Store(true)
			c.Conn.Close()
		}
	}
	return c.Conn.Write(b)
}

// A Lock that fails while the network is down leaves the line when the network is back.
func TestFailedLockLeavesTheLine(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	holder := connected(t, e)
	held := zk.NewLock(holder, "/lock", zk.WorldACL(zk.PermAll))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	n := new(lostNetwork)
	waiter, _, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}), zk.WithDialer(n.dial))
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	if _, _, err := waiter.Exists("/"); err != nil {
		t.Fatal(err)
	}
	n.armed.Store(true)
	if err := zk.NewLock(waiter, "/lock", zk.WorldACL(zk.PermAll)).Lock(); err == nil {
		t.Fatal("locked without a network")
	}
	n.armed.Store(false)
	n.away.Store(false)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		names, _, err := holder.Children("/lock")
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("in line: %q, want the holder only: everybody behind waits for the one that failed", names)
		}
	}
}

// A Lock gives up its place in the line if the server keeps refusing to delete it.
func TestLockLeavesWhereItMayNotDelete(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	var deletes atomic.Int32
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		return &countedDeletes{conn, &deletes}, err
	}
	c, _, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}), zk.WithDialer(dialer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	acl := zk.WorldACL(zk.PermAll &^ zk.PermDelete)
	for _, path := range []string{"/lock", "/lock/not-a-lock"} {
		if _, err := c.Create(path, nil, 0, acl); err != nil {
			t.Fatal(err)
		}
	}
	if err := zk.NewLock(c, "/lock", acl).Lock(); err == nil {
		t.Fatal("locked beside a znode that is no lock's")
	}
	for deletes.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second)
	if n := deletes.Load(); n != 1 {
		t.Errorf("%d deletions that the server refuses", n)
	}
}

// countedDeletes counts the delete requests of a connection.
type countedDeletes struct {
	net.Conn
	n *atomic.Int32
}

func (c *countedDeletes) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 12; rest = rest[4+binary.BigEndian.Uint32(rest):] { // whole frames
		if binary.BigEndian.Uint32(rest[8:]) == uint32(jute.OpDelete) {
			c.n.Add(1)
		}
	}
	return c.Conn.Write(b)
}
