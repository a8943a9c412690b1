package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// place is a subtree here or in another ensemble.
type place struct {
	c       *zk.Client
	path    string // below chroot
	label   string // as it was given
	away    bool   // it has a client of its own
	servers string // of the connect string
	chroot  string // "" if none
}

// place reads "/path", of this ensemble, or "host:port,…/path", of another, which
// it connects to. The caller closes it.
func (s *shell) place(ctx context.Context, text string) (*place, error) {
	if strings.HasPrefix(text, "/") {
		return &place{c: s.client, path: text, label: text, servers: strings.Join(s.servers(), ","), chroot: s.chroot()}, nil
	}
	host, path, ok := strings.Cut(text, "/")
	if !ok {
		return nil, advice.Errorf("as in /app or zk1:2181,zk2:2181/app", "%q contains no path", text)
	}
	c, err := zk.New(host, s.opt.client())
	if err != nil {
		return nil, err // err says where the connect string is malformed
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.timeout)
	defer cancel()
	if err := s.await(ctx, c, host); err != nil {
		c.Close()
		return nil, s.notConnected(host, err)
	}
	return &place{c: c, path: "/" + path, label: text, away: true, servers: host}, nil
}

func (p *place) close() {
	if p.away {
		leave(p.c)
	}
}

// between returns the run function of a command that names two places: it opens them for run.
func between(
	run func(ctx context.Context, s *shell, a *args, from, to *place) error,
) func(context.Context, *shell, *args) error {
	return func(ctx context.Context, s *shell, a *args) error {
		from, err := s.place(ctx, a.arg(0))
		if err != nil {
			return err
		}
		defer from.close()
		to, err := s.place(ctx, a.arg(1))
		if err != nil {
			return err
		}
		defer to.close()
		return run(ctx, s, a, from, to)
	}
}

// walk returns a walk of p that reads data, and ACLs if acl is set.
func (p *place) walk(s *shell, what string, acl bool) subtree.Walk {
	w := s.walk(p.c, p.path)
	w.What, w.Data, w.ACL = what+" "+p.label, true, acl
	return w
}

// relative returns a path at or below p relative to p: "" for p itself.
func (p *place) relative(path string) string {
	if p.path == "/" {
		return strings.TrimSuffix(path, "/")
	}
	return strings.TrimPrefix(path, p.path)
}

// at returns the path in p that a relative path stands for.
func (p *place) at(relative string) string {
	switch {
	case relative == "":
		return p.path
	case p.path == "/":
		return relative
	}
	return p.path + relative
}

// readACL returns the ACL for a copy of n, or an error that says why the copy can't have the same ACL.
func readACL(n *subtree.Znode, withACL bool) ([]zk.ACL, error) {
	if !withACL {
		return zk.WorldACL(zk.PermAll), nil
	}
	if hidden(n.ACL) {
		return nil, advice.Errorf("use addauth with an identity that has the admin permission there, or leave ACLs out with -noacl",
			"the server hides a part of the ACL of %s (%s)", n.Path, subtree.ACLText(n.ACL))
	}
	return n.ACL, nil
}

// missingParents returns the paths above path that don't exist, the topmost first.
func missingParents(ctx context.Context, c *zk.Client, path string) (missing []string, err error) {
	for above := subtree.Parent(path); above != "/"; above = subtree.Parent(above) {
		_, ok, err := c.Exists(ctx, above)
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
		missing = append(missing, above)
	}
	slices.Reverse(missing)
	return missing, nil
}

// makeParents creates the missing znodes above path, open to everybody.
func makeParents(ctx context.Context, c *zk.Client, path string) error {
	missing, err := missingParents(ctx, c, path)
	if err != nil {
		return err
	}
	for _, above := range missing {
		if _, err := c.Create(ctx, above, nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil &&
			!errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create the parent: %w", err)
		}
	}
	return nil
}

// walk returns a walk below root that the caller may adjust.
func (s *shell) walk(c *zk.Client, root string) subtree.Walk {
	w := subtree.NewWalk(s.out, c, root)
	w.System = c == s.client && s.chroot() != "" // below a chroot /zookeeper is a znode like others
	return w
}
