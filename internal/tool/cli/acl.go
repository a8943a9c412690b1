package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// hidden reports whether the server has hidden a part of an ACL from this client: it puts x in place of each digest.
func hidden(list []zk.ACL) bool {
	return slices.ContainsFunc(list, func(e zk.ACL) bool {
		return e.ID.Scheme == "digest" && strings.HasSuffix(e.ID.ID, ":x")
	})
}

type aclJSON struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

func aclToJSON(list []zk.ACL) []aclJSON {
	v := make([]aclJSON, len(list))
	for i, e := range list {
		v[i] = aclJSON{e.ID.Scheme, e.ID.ID, subtree.PermText(e.Perms)}
	}
	return v
}

// aclLike returns an ACL for new znodes that are to be as open as the one at path: that znode's ACL, or one for the
// creator alone if this client may not see the whole ACL.
func (s *shell) aclLike(ctx context.Context, path string) ([]zk.ACL, error) {
	acl, _, err := s.client.GetACL(ctx, path)
	if errors.Is(err, zk.ErrNoAuth) || err == nil && hidden(acl) {
		return zk.CreatorACL(), nil
	}
	return acl, err
}

func runGetACL(ctx context.Context, s *shell, a *args) error {
	list, st, err := s.client.GetACL(ctx, a.arg(0))
	if err != nil {
		return err
	}
	s.out.Show(map[string]any{"path": a.arg(0), "acl": aclToJSON(list), "stat": screen.ToJSON(st)}, func() {
		for _, e := range list {
			s.out.Printf("'%s,'%s\n: %s\n", e.ID.Scheme, s.out.Name(e.ID.ID), subtree.PermText(e.Perms))
		}
		if a.has("s") {
			s.out.PrintStat(st)
		}
	})
	return nil
}

// adviseACL adds valid alternatives to err if err says that an ACL for everybody isn't valid. command is the text
// before the ACL.
func (s *shell) adviseACL(err error, acl []zk.ACL, command string) error {
	open := slices.ContainsFunc(acl, func(e zk.ACL) bool { return e.ID.Scheme == "world" })
	if !open || !errors.Is(err, zk.ErrInvalidACL) {
		return err
	}
	return advice.Add(err,
		"a server with security.profile=strict refuses an ACL for everybody, which is the default: name who may use the znode, as in %s auth::cdrwa for yourself, or x509:CN=app:cdrwa for the holder of a certificate",
		command)
}

func checkSetACL(a *args) error {
	_, err := subtree.ParseACL(a.arg(1))
	return err
}

func runSetACL(ctx context.Context, s *shell, a *args) error {
	acl, err := subtree.ParseACL(a.arg(1))
	if err != nil {
		return err
	}
	version, err := a.version(len(a.words)) // there is no positional form
	if err != nil {
		return err
	}
	if a.has("R") {
		return s.setACLAll(ctx, a, acl, version)
	}
	st, err := s.client.SetACL(ctx, a.arg(0), acl, version)
	if err = s.adviseACL(err, acl, "setAcl "+a.arg(0)); err != nil {
		return err
	}
	s.printACLSet(a, a.arg(0), st)
	return nil
}

func (s *shell) printACLSet(a *args, path string, st zk.Stat) {
	if s.out.JSON {
		s.out.Value(znodeJSON{Path: path, Stat: screen.ToJSON(st)})
	} else if a.has("s") {
		s.out.PrintStat(st)
	}
}

// setACLAll sets the ACL of a whole subtree. It lists the subtree first, as the new ACL
// may forbid that.
func (s *shell) setACLAll(ctx context.Context, a *args, acl []zk.ACL, version int32) error {
	list, err := s.below(ctx, s.client, a.arg(0))
	if err != nil {
		return err
	}
	p := s.out.Progress("set ACLs below " + a.arg(0)).Of(len(list))
	defer p.End()
	for at := 0; at < len(list); at += subtree.ReadsAhead {
		batch := list[at:min(at+subtree.ReadsAhead, len(list))]
		stats, err := s.setListed(ctx, batch, acl, version)
		if err != nil {
			return advice.Add(fmt.Errorf("setAcl -R %s: stopped after about %d of %d znodes: %w", a.arg(0), at, len(list), err),
				"the ACLs that were set stay; run it again")
		}
		for i, st := range stats {
			s.printACLSet(a, batch[i].Path, st)
		}
		p.Add(int64(len(batch)))
	}
	return nil
}

// setListed sets the ACL of listed znodes. Each must still be the znode that was
// listed, with the ACL it had then or the version asked for.
func (s *shell) setListed(ctx context.Context, batch []subtree.Listed, acl []zk.ACL, version int32) ([]zk.Stat, error) {
	now, err := subtree.Look(ctx, s.client, batch)
	if err != nil {
		return nil, err
	}
	for i, l := range batch {
		if now[i] != nil && now[i].Czxid != l.Stat.Czxid { // another znode at the path may have the same version
			return nil, &subtree.ChangedError{Path: l.Path}
		}
	}
	return subtree.InParallel(batch, func(l subtree.Listed) (zk.Stat, error) {
		if version == zk.AnyVersion {
			return s.client.SetACL(ctx, l.Path, acl, l.Stat.Aversion)
		}
		return s.client.SetACL(ctx, l.Path, acl, version)
	})
}

func runAddAuth(ctx context.Context, s *shell, a *args) error {
	credentials, err := access.Credentials(a.arg(0), a.arg(1))
	if err != nil {
		return err
	}
	err = s.client.AddAuth(ctx, a.arg(0), credentials)
	return advice.Add(err, "the server refused the identity; does it know the scheme, and is the form right (digest user:password)?")
}

// whoAmI returns the session's identities, sorted, as a server keeps them in no order.
func (s *shell) whoAmI(ctx context.Context) ([]zk.Identity, error) {
	list, err := s.client.WhoAmI(ctx)
	slices.SortFunc(list, func(a, b zk.Identity) int {
		return cmp.Or(cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.User, b.User))
	})
	return list, err
}

func runWhoAmI(ctx context.Context, s *shell, _ *args) error {
	list, err := s.whoAmI(ctx)
	if err != nil {
		return err
	}
	type identity struct {
		Scheme string `json:"scheme"`
		User   string `json:"user"`
	}
	v := []identity{}
	for _, i := range list {
		v = append(v, identity{i.Scheme, i.User})
	}
	s.out.Show(map[string]any{"identities": v}, func() {
		s.out.Printf("Auth scheme: User\n")
		for _, i := range v {
			s.out.Printf("%s: %s\n", i.Scheme, s.out.Name(i.User))
		}
	})
	return nil
}
