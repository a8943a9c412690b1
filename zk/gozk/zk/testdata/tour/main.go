// Tour goes through the interface and prints what happens, in a form that doesn't
// depend on the moment. It is built with either client.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// servers, and a znode that exists only for the tour.
var servers, root = strings.Split(os.Args[1], ","), os.Args[2]

var names = map[error]string{
	nil: "nil", zk.ErrConnectionClosed: "ErrConnectionClosed", zk.ErrNoNode: "ErrNoNode", zk.ErrNoAuth: "ErrNoAuth",
	zk.ErrBadVersion: "ErrBadVersion", zk.ErrNoChildrenForEphemerals: "ErrNoChildrenForEphemerals",
	zk.ErrNodeExists: "ErrNodeExists",
	zk.ErrNotEmpty:   "ErrNotEmpty", zk.ErrInvalidACL: "ErrInvalidACL", zk.ErrInvalidPath: "ErrInvalidPath",
	zk.ErrBadArguments: "ErrBadArguments",
	zk.ErrAuthFailed:   "ErrAuthFailed", zk.ErrClosing: "ErrClosing", zk.ErrDeadlock: "ErrDeadlock",
	zk.ErrNotLocked: "ErrNotLocked", zk.ErrNoServer: "ErrNoServer",
}

// name identifies errors by ==, as programs do.
func name(err error) string {
	if n, ok := names[err]; ok {
		return n
	}
	return err.Error()
}

func say(values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case error:
			values[i] = name(v)
		case nil:
			values[i] = "nil"
		case *zk.Stat:
			if v == nil {
				values[i] = "no stat"
				break
			}
			values[i] = fmt.Sprintf("stat{v%d c%d a%d, %d bytes, %d children, ephemeral %v, times %v, order %v}", v.Version,
				v.Cversion, v.Aversion,
				v.DataLength, v.NumChildren, v.EphemeralOwner != 0, v.Ctime > 0 && v.Mtime >= v.Ctime, v.Czxid > 0 &&
					v.Mzxid >= v.Czxid && v.Pzxid >= v.Czxid)
		case []byte:
			values[i] = fmt.Sprintf("%q (nil %v)", v, v == nil)
		case []string:
			sort.Strings(v)
			values[i] = fmt.Sprintf("%q (nil %v)", v, v == nil)
		case zk.Event:
			values[i] = fmt.Sprintf("%v %v %s %s", v.Type, v.State, strings.ReplaceAll(v.Path, root, ""), name(v.Err))
		case string:
			values[i] = strings.ReplaceAll(v, root, "")
		}
	}
	fmt.Println(values...)
}

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

// cable remembers the connections, to cut them.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cable) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func main() {
	var wire cable
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(wire.dial),
		zk.WithMaxBufferSize(1<<20))
	if err != nil {
		panic(err)
	}
	for e := range events {
		say(e.Type.String(), e.State.String(), e.Server == conn.Server())
		if e.State == zk.StateHasSession {
			break
		}
	}
	say(conn.State().String(), conn.SessionID() != 0)
	znodes(conn)
	kinds(conn)
	lists(conn)
	multis(conn)
	watches(conn)
	lost(conn, &wire, events)
	locks(conn)
	say(zk.FLWRuok(servers, time.Second))
	last, _, changes, err := conn.GetW(root)
	say("last", last, err)
	conn.Close()
	say(<-changes)
	_, stat, err := conn.Get(root)
	say(stat, err)
	_, err = conn.Create(root+"/late", nil, 0, zk.WorldACL(zk.PermAll))
	say(err)
	for range events {
	}
	say("the channel is closed", conn.State().String())
	conn.Close()
}

func znodes(c *zk.Conn) {
	world := zk.WorldACL(zk.PermAll)
	path, err := c.Create(root+"/a", []byte("one"), zk.FlagPersistent, world)
	say("create", path, err)
	path, err = c.Create(root+"/a", nil, 0, world)
	say("again", path, err)
	path, err = c.Create(root+"/no/such", nil, 0, world)
	say("below nothing", path, err)
	data, stat, err := c.Get(root + "/a")
	say("get", data, stat, err)
	data, stat, err = c.Get(root + "/none")
	say("get none", data, stat, err)
	ok, stat, err := c.Exists(root + "/a")
	say("exists", ok, stat, err)
	ok, stat, err = c.Exists(root + "/none")
	say("exists none", ok, stat, err)
	stat, err = c.Set(root+"/a", []byte("two"), 0)
	say("set", stat, err)
	stat, err = c.Set(root+"/a", []byte("three"), 0)
	say("set the old", stat, err)
	stat, err = c.Set(root+"/a", []byte{}, -1)
	say("set nothing", stat, err)
	data, _, err = c.Get(root + "/a")
	say("nothing", data, err)
	children, stat, err := c.Children(root + "/a")
	say("no children", children, stat, err)
	c.Create(root+"/a/b", nil, 0, world)
	data, _, err = c.Get(root + "/a/b")
	say("null", data, err)
	children, stat, err = c.Children(root)
	say("children", children, stat, err)
	say("delete a parent", c.Delete(root+"/a", -1))
	say("delete the old", c.Delete(root+"/a/b", 7))
	say("delete", c.Delete(root+"/a/b", 0))
	say("delete none", c.Delete(root+"/a/b", 0))
	path, err = c.Sync(root)
	say("sync", path, err)
	for _, bad := range []string{"", "a", "/a/", "//", "/a/../b", "/a/./b", "/\x00"} {
		_, stat, err := c.Get(bad)
		say("bad path", fmt.Sprintf("%q", bad), stat, err)
		_, err = c.Create(bad, nil, 0, world)
		say(err, c.Delete(bad, -1))
	}
}

func kinds(c *zk.Conn) {
	world := zk.WorldACL(zk.PermAll)
	for flag := int32(-1); flag <= 7; flag++ {
		path, err := c.Create(fmt.Sprintf("%s/kind%d-", root, flag), nil, flag, world)
		say("kind", flag, path, err, errors.Is(err, zk.ErrInvalidFlags))
		path, err = c.CreateContainer(fmt.Sprintf("%s/container%d-", root, flag), nil, flag, world)
		say("container", flag, path, err, errors.Is(err, zk.ErrInvalidFlags))
		path, err = c.CreateTTL(fmt.Sprintf("%s/ttl%d-", root, flag), nil, flag, world, time.Minute)
		say("ttl", flag, path, err, errors.Is(err, zk.ErrInvalidFlags))
	}
	_, stat, err := c.Get(root + "/kind1-")
	say("ephemeral", stat, err)
	_, err = c.Create(root+"/kind1-/child", nil, 0, world)
	say("child of an ephemeral", err)
	path, err := c.CreateProtectedEphemeralSequential(root+"/p-", []byte("x"), world)
	say("protected", strings.HasPrefix(path, root+"/_c_"), strings.Contains(path, "-p-00000000"), err)
	_, err = c.CreateProtectedEphemeralSequential(root+"/none/p-", nil, world)
	say("protected below nothing", err)
	_, err = c.CreateTTL(root+"/ttl", nil, zk.FlagTTL, world, -time.Second)
	say("negative ttl", err)
}

func lists(c *zk.Conn) {
	_, err := c.Create(root+"/acl", nil, 0, nil)
	say("no acl", err)
	_, err = c.Create(root+"/acl", nil, 0, zk.AuthACL(zk.PermAll))
	say("nobody", err)
	_, err = c.Create(root+"/acl", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "no-such", ID: "x"}})
	say("no such scheme", err)
	digest := zk.DigestACL(zk.PermAll, "user", "password")
	say("digest", digest[0].Perms, digest[0].Scheme, digest[0].ID)
	_, err = c.Create(root+"/acl", []byte("secret"), 0, digest)
	say("create", err)
	data, stat, err := c.Get(root + "/acl")
	say("not mine", data, stat, err)
	say("auth", c.AddAuth("digest", []byte("user:password")))
	data, stat, err = c.Get(root + "/acl")
	say("mine", data, stat, err)
	acl, stat, err := c.GetACL(root + "/acl")
	say("acl", acl[0].Perms, acl[0].ID, stat, err)
	stat, err = c.SetACL(root+"/acl", zk.WorldACL(zk.PermRead), 0)
	say("set acl", stat, err)
	stat, err = c.SetACL(root+"/acl", zk.WorldACL(zk.PermAll), 0)
	say("not mine any more", stat, err)
	acl, stat, err = c.GetACL(root + "/none")
	say("acl of none", acl == nil, stat, err)
}

func multis(c *zk.Conn) {
	world := zk.WorldACL(zk.PermAll)
	results := func(r []zk.MultiResponse, err error) {
		for i, one := range r {
			say(i, one.String, one.Stat, one.Error)
		}
		say("multi", err)
	}
	results(c.Multi())
	results(c.Multi(
		&zk.CreateRequest{Path: root + "/m", Data: []byte("1"), Acl: world, Flags: zk.FlagPersistent},
		&zk.CreateRequest{Path: root + "/m/s-", Acl: world, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: root + "/m", Data: []byte("22"), Version: 0},
		&zk.CheckVersionRequest{Path: root + "/m", Version: 1},
		&zk.DeleteRequest{Path: root + "/m/s-0000000000", Version: -1}))
	results(c.Multi(
		&zk.SetDataRequest{Path: root + "/m", Data: []byte("333"), Version: -1},
		&zk.CheckVersionRequest{Path: root + "/m", Version: 7},
		&zk.DeleteRequest{Path: root + "/m", Version: -1}))
	results(c.Multi("delete everything"))
	data, stat, err := c.Get(root + "/m")
	say("all or nothing", data, stat, err)
}

func watches(c *zk.Conn) {
	world := zk.WorldACL(zk.PermAll)
	next := func(ch <-chan zk.Event) {
		select {
		case e := <-ch:
			_, more := <-ch
			say(e, more)
		case <-time.After(20 * time.Second):
			say("no event")
		}
	}
	_, stat, created, err := c.ExistsW(root + "/w")
	say("watch", stat, err)
	_, _, _, err = c.GetW(root + "/w")
	say("nothing to watch", err)
	_, _, child, err := c.ChildrenW(root)
	say("watch children", err)
	c.Create(root+"/w", nil, 0, world)
	next(created)
	next(child)
	_, _, changed, _ := c.GetW(root + "/w")
	_, _, changed2, _ := c.ExistsW(root + "/w")
	c.Set(root+"/w", []byte("x"), -1)
	next(changed)
	next(changed2)
	_, _, deleted, _ := c.GetW(root + "/w")
	_, _, childless, _ := c.ChildrenW(root + "/w")
	c.Delete(root+"/w", -1)
	next(deleted)
	next(childless)
}

func lost(c *zk.Conn, wire *cable, events <-chan zk.Event) {
	world := zk.WorldACL(zk.PermAll)
	id := c.SessionID()
	_, _, created, err := c.ExistsW(root + "/later")
	say("watch", err)
	for len(events) > 0 {
		<-events
	}
	wire.cut()
	for e := range events {
		if e.Type == zk.EventSession {
			say("lost", e.State.String())
		}
		if e.State == zk.StateHasSession {
			break
		}
	}
	say("the same session", c.SessionID() == id)
	data, _, err := c.Get(root + "/acl")
	say("still who I was", data, err)
	_, err = c.Create(root+"/later", nil, 0, world)
	say("create", err)
	select {
	case e := <-created:
		say(e)
	case <-time.After(20 * time.Second):
		say("no event")
	}
}

func locks(c *zk.Conn) {
	world := zk.WorldACL(zk.PermAll)
	first, second := zk.NewLock(c, root+"/locks/one", world), zk.NewLock(c, root+"/locks/one", world)
	say("lock", first.LockWithData([]byte("me")))
	say("again", first.Lock())
	say("not mine", second.Unlock())
	got := make(chan error)
	go func() { got <- second.Lock() }()
	for {
		if children, _, _ := c.Children(root + "/locks/one"); len(children) == 2 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case <-got:
		say("both have it")
	default:
	}
	say("unlock", first.Unlock())
	say("second", <-got)
	say("unlock", second.Unlock(), first.Unlock())
	children, _, err := c.Children(root + "/locks/one")
	say("line", children, err)
}
