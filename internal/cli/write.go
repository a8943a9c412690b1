package cli

import (
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// newZnode is what create is asked for.
type newZnode struct {
	path string
	data []byte // nil for none
	mode zk.CreateMode
	ttl  time.Duration
	acl  []zk.ACL
}

// readCreate reads create's arguments.
func readCreate(a *args) (*newZnode, error) {
	n := &newZnode{path: a.arg(0), acl: zk.WorldACL(zk.PermAll)}
	e, seq, c, t := a.has("e"), a.has("s"), a.has("c"), a.has("t")
	switch {
	case c && (e || seq):
		return nil, a.usagef("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case t && e:
		return nil, a.usagef("TTLs cannot be used with Ephemeral znodes")
	case t && c:
		return nil, a.usagef("TTLs cannot be used with Container znodes")
	case t && seq:
		n.mode = zk.ModePersistentSequentialWithTTL
	case t:
		n.mode = zk.ModePersistentWithTTL
	case c:
		n.mode = zk.ModeContainer
	case e && seq:
		n.mode = zk.ModeEphemeralSequential
	case e:
		n.mode = zk.ModeEphemeral
	case seq:
		n.mode = zk.ModePersistentSequential
	}
	if t {
		ms, err := strconv.ParseInt(a.flags["t"], 10, 64)
		if err != nil {
			return nil, a.usagef("-t argument must be a long value")
		}
		n.ttl = time.Duration(ms) * time.Millisecond
	}
	if len(a.words) > 1 {
		n.data = []byte(a.arg(1))
	}
	if len(a.words) > 2 {
		var err error
		if n.acl, err = parseACL(a.arg(2)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func checkCreate(a *args) error {
	_, err := readCreate(a)
	return err
}

func runCreate(ctx context.Context, s *shell, a *args) error {
	n, err := readCreate(a)
	if err != nil {
		return err
	}
	var path string
	if n.ttl != 0 || n.mode == zk.ModePersistentWithTTL || n.mode == zk.ModePersistentSequentialWithTTL {
		path, _, err = s.client.CreateTTL(ctx, n.path, n.data, n.mode, n.acl, n.ttl)
	} else {
		path, err = s.client.Create(ctx, n.path, n.data, n.mode, n.acl)
	}
	if err != nil {
		return err
	}
	// zkCli prints this among the errors, and scripts may count on nothing else
	// being printed.
	s.out.notef("Created %s", s.out.name(path))
	if s.out.json {
		s.out.value(map[string]string{"created": path})
	}
	return nil
}

func runSet(ctx context.Context, s *shell, a *args) error {
	if len(a.words) > 2 {
		s.out.notef("'set path data [version]' has been deprecated. Please use 'set [-s] [-v version] path data' instead.")
	}
	version, err := a.version(2)
	if err != nil {
		return err
	}
	data, err := readData(a)
	if err != nil {
		return err
	}
	st, err := s.client.Set(ctx, a.arg(0), data, version)
	if err != nil {
		return err
	}
	if s.out.json {
		s.out.value(znodeJSON{Path: a.arg(0), Stat: toJSON(st)})
	} else if a.has("s") {
		s.out.printStat(st)
	}
	return nil
}

// readData returns the data that set is given.
func readData(a *args) ([]byte, error) {
	if !a.has("b") {
		return []byte(a.arg(1)), nil
	}
	data, err := base64.StdEncoding.DecodeString(a.arg(1))
	if err != nil {
		return nil, failuref("leave out -b to store the text as it is", "set %s: the data is not base64: %w", a.arg(0), err)
	}
	return data, nil
}

func runDelete(ctx context.Context, s *shell, a *args) error {
	if len(a.words) > 1 {
		s.out.notef("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
	}
	version, err := a.version(1)
	if err == nil {
		err = s.client.Delete(ctx, a.arg(0), version)
	}
	if err == nil && s.out.json {
		s.out.value(map[string]string{"deleted": a.arg(0)})
	}
	return err
}

const (
	deleteBatch    = 1000   // znodes to a transaction, as zkCli's
	deleteBatchMax = 10_000 // -b; larger ones stall a server
)

// runDeleteAll removes a znode with everything below it.
func runDeleteAll(ctx context.Context, s *shell, a *args) error {
	batch, err := a.number("b", deleteBatch)
	if err != nil {
		return err
	}
	if batch < 1 || batch > deleteBatchMax {
		return a.usagef("deleteall -b: want 1 to %d znodes to a transaction, not %d", deleteBatchMax, batch)
	}
	root := a.arg(0)
	if root == "/" {
		return failuref("name the children of / one by one", "Failed to delete some node(s) in the subtree! deleteall /: the root can't be deleted, so nothing was")
	}
	list, err := s.below(ctx, s.client, root)
	if err != nil {
		return err
	}
	if a.has("dry-run") {
		for i := len(list) - 1; i >= 0; i-- {
			path := list[i].path
			s.out.show(map[string]string{"wouldDelete": path}, func() { s.out.printf("would delete %s\n", s.out.name(path)) })
		}
		return nil
	}
	n, err := s.deleteListed(ctx, s.client, list, int(batch))
	if err != nil {
		return deletedError("Failed to delete some node(s) in the subtree! deleteall "+root, n, len(list), err)
	}
	if s.out.json {
		s.out.value(map[string]any{"deleted": root, "znodes": n})
	}
	return nil
}

// below lists a subtree, each znode before those below it.
func (s *shell) below(ctx context.Context, c *zk.Client, root string) ([]listed, error) {
	var list []listed
	w := s.walk(c, root)
	w.what = "list " + root
	err := w.each(ctx, func(n *znode) error {
		list = append(list, listed{n.path, n.stat})
		return nil
	})
	return list, err
}
