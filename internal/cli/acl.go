package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// hidden reports whether an ACL was read without the right to see it whole: the
// server has put x in place of each digest.
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
		v[i] = aclJSON{e.ID.Scheme, e.ID.ID, permText(e.Perms)}
	}
	return v
}

func runGetACL(ctx context.Context, s *shell, a *args) error {
	list, st, err := s.client.GetACL(ctx, a.arg(0))
	if err != nil {
		return err
	}
	s.out.show(map[string]any{"path": a.arg(0), "acl": aclToJSON(list), "stat": toJSON(st)}, func() {
		for _, e := range list {
			s.out.printf("'%s,'%s\n: %s\n", e.ID.Scheme, s.out.name(e.ID.ID), permText(e.Perms))
		}
		if a.has("s") {
			s.out.printStat(st)
		}
	})
	return nil
}

func checkSetACL(a *args) error {
	_, err := parseACL(a.arg(1))
	return err
}

func runSetACL(ctx context.Context, s *shell, a *args) error {
	acl, err := parseACL(a.arg(1))
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
	if err != nil {
		return err
	}
	s.printACLSet(a, a.arg(0), st)
	return nil
}

func (s *shell) printACLSet(a *args, path string, st zk.Stat) {
	if s.out.json {
		s.out.value(znodeJSON{Path: path, Stat: toJSON(st)})
	} else if a.has("s") {
		s.out.printStat(st)
	}
}

// setACLAll sets the ACL of a whole subtree. It lists all first: the new ACL may
// forbid it.
func (s *shell) setACLAll(ctx context.Context, a *args, acl []zk.ACL, version int32) error {
	list, err := s.below(ctx, s.client, a.arg(0))
	if err != nil {
		return err
	}
	p := s.out.progress("set ACLs below " + a.arg(0)).of(len(list))
	defer p.end()
	for at := 0; at < len(list); at += readsAhead {
		batch := list[at:min(at+readsAhead, len(list))]
		stats, err := s.setListed(ctx, batch, acl, version)
		if err != nil {
			return advise(fmt.Errorf("setAcl -R %s: stopped after about %d of %d znodes: %w", a.arg(0), at, len(list), err),
				"the ACLs that were set stay; run it again")
		}
		for i, st := range stats {
			s.printACLSet(a, batch[i].path, st)
		}
		p.add(int64(len(batch)))
	}
	return nil
}

// setListed sets the ACL of znodes that are those which were listed, with the ACL
// they had then or the version asked for.
func (s *shell) setListed(ctx context.Context, batch []listed, acl []zk.ACL, version int32) ([]zk.Stat, error) {
	now, err := look(ctx, s.client, batch)
	if err != nil {
		return nil, err
	}
	for i, l := range batch {
		if now[i] != nil && now[i].Czxid != l.stat.Czxid { // the version alone may fit another's znode
			return nil, &changedError{l.path}
		}
	}
	return inParallel(batch, func(l listed) (zk.Stat, error) {
		if version == zk.AnyVersion {
			return s.client.SetACL(ctx, l.path, acl, l.stat.Aversion)
		}
		return s.client.SetACL(ctx, l.path, acl, version)
	})
}

// inParallel applies f to all of in at once, and returns the first error.
func inParallel[T, R any](in []T, f func(T) (R, error)) ([]R, error) {
	out, errs := make([]R, len(in)), make([]error, len(in))
	done := make(chan int)
	for i := range in {
		go func() {
			out[i], errs[i] = f(in[i])
			done <- i
		}()
	}
	for range in {
		<-done
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func runAddAuth(ctx context.Context, s *shell, a *args) error {
	err := s.client.AddAuth(ctx, a.arg(0), []byte(a.arg(1)))
	return advise(err, "the server refused the identity; is the scheme one it knows, and the form right (digest user:password)?")
}

// whoAmI returns the session's identities, sorted: a server keeps them as a set.
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
	s.out.show(map[string]any{"identities": v}, func() {
		s.out.printf("Auth scheme: User\n")
		for _, i := range v {
			s.out.printf("%s: %s\n", i.Scheme, s.out.name(i.User))
		}
	})
	return nil
}

// admits tells whether an entry grants its permissions to one of ids; sure is
// false where the client can't know, as servers don't tell digests.
func admits(e zk.ACL, ids []zk.Identity) (yes, sure bool) {
	if e.ID.Scheme == "world" {
		return e.ID.ID == "anyone", true
	}
	for _, id := range ids {
		if id.Scheme == "super" {
			return true, true
		}
		if id.Scheme != e.ID.Scheme {
			continue
		}
		switch e.ID.Scheme {
		case "digest":
			if user, _, _ := strings.Cut(e.ID.ID, ":"); user == id.User {
				return true, false
			}
		case "ip":
			if inNetwork(id.User, e.ID.ID) {
				return true, true
			}
		default:
			if id.User == e.ID.ID {
				return true, true
			}
		}
	}
	return false, true
}

func inNetwork(address, network string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	if p, err := netip.ParsePrefix(network); err == nil {
		return p.Masked().Contains(a)
	}
	n, err := netip.ParseAddr(network)
	return err == nil && n == a
}
