package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/rights"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// newZnode is the znode that create is asked for.
type newZnode struct {
	path    string
	data    []byte // nil for none
	mode    zk.CreateMode
	ttl     time.Duration
	acl     []zk.ACL
	parents bool // also make missing parents
}

// op returns the znode's creation as a part of a transaction.
func (n *newZnode) op() zk.MultiOp {
	if n.mode == zk.ModePersistentWithTTL || n.mode == zk.ModePersistentSequentialWithTTL {
		return zk.CreateTTLOp(n.path, n.data, n.mode, n.acl, n.ttl)
	}
	return zk.CreateOp(n.path, n.data, n.mode, n.acl)
}

// readCreate reads create's arguments.
func readCreate(a *args) (*newZnode, error) {
	n := &newZnode{path: a.arg(0), acl: zk.WorldACL(zk.PermAll), parents: a.has("p")}
	e, seq, c, t := a.has("e"), a.has("s"), a.has("c"), a.has("t")
	switch {
	case c && (e || seq):
		return nil, a.usagef("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case t && e:
		return nil, a.usagef("TTLs cannot be used with Ephemeral znodes")
	case t && c:
		return nil, a.usagef("TTLs cannot be used with Container znodes")
	case t:
		n.mode = zk.ModePersistentWithTTL
	case c:
		n.mode = zk.ModeContainer
	case e:
		n.mode = zk.ModeEphemeral
	}
	if seq {
		n.mode = map[zk.CreateMode]zk.CreateMode{
			zk.ModePersistent: zk.ModePersistentSequential, zk.ModeEphemeral: zk.ModeEphemeralSequential,
			zk.ModePersistentWithTTL: zk.ModePersistentSequentialWithTTL,
		}[n.mode]
	}
	if t {
		ms, err := strconv.ParseInt(a.flags["t"], 10, 64)
		if err != nil {
			return nil, a.usagef("-t argument must be a long value")
		}
		n.ttl = time.Duration(ms) * time.Millisecond
	}
	n.data = a.data
	if len(a.words) > 2 {
		var err error
		if n.acl, err = subtree.ParseACL(a.arg(2)); err != nil {
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
	path, err := s.create(ctx, n)
	if err = s.adviseACL(err, n.acl, "create "+n.path+" DATA"); err != nil {
		return err
	}
	// zkCli prints this among the errors, and scripts may rely on there being no other
	// output.
	s.out.Notef("Created %s", s.out.Name(path))
	if s.out.JSON {
		s.out.Value(map[string]string{"created": path})
	}
	return nil
}

// create creates a znode and its missing parents in one transaction, with the same ACL: after a failure, none of them
// exists.
func (s *shell) create(ctx context.Context, n *newZnode) (path string, err error) {
	for try := 1; ; try++ {
		var ops []zk.MultiOp
		if n.parents {
			missing, err := missingParents(ctx, s.client, n.path)
			if err != nil {
				return "", err
			}
			for _, above := range missing {
				ops = append(ops, zk.CreateOp(above, nil, zk.ModePersistent, n.acl))
			}
		}
		if len(ops) == 0 {
			break
		}
		results, err := s.client.Multi(ctx, append(ops, n.op())...)
		if err == nil {
			return results[len(ops)].Path, nil
		}
		if !errors.Is(err, zk.ErrNodeExists) && !subtree.Gone(err) || try == parentTries {
			return "", s.limited(ctx, err, append(ops, n.op())...)
		}
	}
	if n.mode == zk.ModePersistentWithTTL || n.mode == zk.ModePersistentSequentialWithTTL {
		path, _, err = s.client.CreateTTL(ctx, n.path, n.data, n.mode, n.acl, n.ttl)
	} else {
		path, err = s.client.Create(ctx, n.path, n.data, n.mode, n.acl)
	}
	return path, s.limited(ctx, err, n.op())
}

// If err says that the writes exceed a limit, limited adds to err which limit that is.
func (s *shell) limited(ctx context.Context, err error, writes ...zk.MultiOp) error {
	if s.chroot() != "" {
		return err
	}
	return rights.Limited(ctx, s.client, err, writes...)
}

// parentTries bounds the attempts while others create or delete a parent.
const parentTries = 5

func runSet(ctx context.Context, s *shell, a *args) error {
	if len(a.words) > 2 {
		s.out.Notef("'set path data [version]' has been deprecated. Please use 'set [-s] [-v version] path data' instead.")
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
		return s.limited(ctx, err, zk.SetOp(a.arg(0), data, version))
	}
	if s.out.JSON {
		s.out.Value(znodeJSON{Path: a.arg(0), Stat: screen.ToJSON(st)})
	} else if a.has("s") {
		s.out.PrintStat(st)
	}
	return nil
}

// readData returns the data for set.
func readData(a *args) ([]byte, error) {
	if !a.has("b") {
		return a.data, nil
	}
	data, err := base64.StdEncoding.DecodeString(string(a.data))
	if err != nil {
		return nil, advice.Errorf("leave out -b to store the text as it is", "set %s: the data is not base64: %w", a.arg(0),
			err)
	}
	return data, nil
}

func runDelete(ctx context.Context, s *shell, a *args) error {
	if len(a.words) > 1 {
		s.out.Notef("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
	}
	version, err := a.version(1)
	if err == nil {
		err = s.client.Delete(ctx, a.arg(0), version)
	}
	if err == nil && s.out.JSON {
		s.out.Value(map[string]string{"deleted": a.arg(0)})
	}
	return err
}

// runRm is delete and deleteall under the name that other shells use. As in those shells, it continues after a path
// that it can't remove.
func runRm(ctx context.Context, s *shell, a *args) error {
	run := runDelete
	if a.has("r") {
		run = runDeleteAll
	}
	var failed error
	for i := range a.words {
		one := *a
		one.words = a.words[i : i+1]
		err := run(ctx, s, &one)
		if err == nil || subtree.Gone(err) && a.has("f") {
			continue
		}
		if failed != nil {
			s.report(ctx, failed)
		}
		failed = err
	}
	return failed
}

const (
	deleteBatch    = 1000   // znodes to a transaction, as zkCli's
	deleteBatchMax = 10_000 // the most that -b allows; larger ones stall a server
)

// runDeleteAll removes a znode with everything below it.
func runDeleteAll(ctx context.Context, s *shell, a *args) error {
	batch, err := a.number("b", deleteBatch)
	if err != nil {
		return err
	}
	if batch < 1 || batch > deleteBatchMax {
		return a.usagef("deleteall -b: want 1 to %d znodes per transaction, not %d", deleteBatchMax, batch)
	}
	root := a.arg(0)
	if root == "/" {
		return advice.Errorf("name the children of / one by one", "Failed to delete some node(s) in the subtree! deleteall /: the root can't be deleted, so nothing was deleted")
	}
	list, err := s.below(ctx, s.client, root)
	if err != nil {
		return err
	}
	if a.has("dry-run") {
		for i := len(list) - 1; i >= 0; i-- {
			path := list[i].Path
			s.out.Show(map[string]string{"wouldDelete": path}, func() { s.out.Printf("would delete %s\n", s.out.Name(path)) })
		}
		return nil
	}
	n, err := subtree.DeleteListed(ctx, s.out, s.client, list, int(batch))
	if err != nil {
		return subtree.DeletedError("Failed to delete some node(s) in the subtree! deleteall "+root, n, len(list), err)
	}
	if s.out.JSON {
		s.out.Value(map[string]any{"deleted": root, "znodes": n})
	}
	return nil
}

// below lists a subtree, each znode before those below it.
func (s *shell) below(ctx context.Context, c *zk.Client, root string) ([]subtree.Listed, error) {
	var list []subtree.Listed
	w := s.walk(c, root)
	w.What = "list " + root
	err := w.Each(ctx, func(n *subtree.Znode) error {
		list = append(list, subtree.Listed{Path: n.Path, Stat: n.Stat})
		return nil
	})
	return list, err
}
