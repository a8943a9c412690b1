package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// limitJSON is the output of limits get and limits list for one place.
type limitJSON struct {
	Of     string `json:"of"`
	Limits string `json:"limits"`
}

// limitPlace returns the place that a limits command is about.
func (s *shell) limitPlace(a *args) (p limit.Place, err error) {
	if s.chroot() != "" {
		return p, advice.Errorf("connect without the chroot and give whole paths", "%s: limits lie outside of the chroot %s",
			a.cmd.name, s.chroot())
	}
	p, ok := limit.ParsePlace(a.arg(0))
	if !ok {
		return p, a.usagef("%s %s: want connection, address, identity, or a path", a.cmd.name, a.arg(0))
	}
	return p, nil
}

func runLimitsGet(ctx context.Context, s *shell, a *args) error {
	p, err := s.limitPlace(a)
	if err != nil {
		return err
	}
	data, _, err := s.client.Get(ctx, p.Znode())
	if subtree.Gone(err) {
		return advice.Errorf("limits set sets some; until then, each server's configuration applies", "%s has no limits of its own",
			p)
	}
	if err != nil {
		return err
	}
	s.out.Show(limitJSON{p.String(), string(data)}, func() { s.out.Printf("%s\n", data) })
	return nil
}

func runLimitsList(ctx context.Context, s *shell, a *args) error {
	if s.chroot() != "" {
		return advice.Errorf("connect without the chroot", "%s: limits lie outside of the chroot %s", a.cmd.name, s.chroot())
	}
	names, _, err := s.client.Children(ctx, limit.Root)
	if err != nil && !subtree.Gone(err) {
		return err
	}
	slices.Sort(names)
	list := []limitJSON{}
	for _, name := range names {
		p, ok := limit.PlaceOf(name)
		if !ok {
			s.out.Notef("%s/%s isn't a limit", limit.Root, name)
			continue
		}
		data, _, err := s.client.Get(ctx, p.Znode())
		if subtree.Gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, limitJSON{p.String(), string(data)})
	}
	s.out.Show(list, func() {
		if len(list) == 0 {
			s.out.Notef("no limits are set: each server's configuration applies; limits set sets limits for all servers")
		}
		for _, l := range list {
			s.out.Printf("%s %s\n", s.out.Name(l.Of), l.Limits)
		}
	})
	return nil
}

func runLimitsSet(ctx context.Context, s *shell, a *args) error {
	p, err := s.limitPlace(a)
	if err != nil {
		return err
	}
	text := strings.Join(a.words[1:], " ")
	if _, err := limit.Parse(p.Scope, text, limit.Set{}); err != nil {
		return fmt.Errorf("limits set %s: %w", p, err)
	}
	for try := 1; ; try++ {
		err := s.changeLimits(ctx, p, text)
		if err == nil || !subtree.Conflict(err) || try == quotaTries {
			return err
		}
	}
}

// changeLimits changes the limits that text names, and no others.
func (s *shell) changeLimits(ctx context.Context, p limit.Place, text string) error {
	old, st, err := s.client.Get(ctx, p.Znode())
	if err == nil {
		_, err = s.client.Set(ctx, p.Znode(), []byte(limit.Merge(string(old), text)), st.Version)
		return err
	}
	if !subtree.Gone(err) {
		return err
	}
	_, err = s.client.Create(ctx, limit.Root, nil, zk.ModePersistent, limitsACL)
	if errors.Is(err, zk.ErrInvalidACL) { // as security.profile=strict says of every ACL for everybody
		_, err = s.client.Create(ctx, limit.Root, nil, zk.ModePersistent, zk.CreatorACL())
	}
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrInvalidACL) {
		return advice.Errorf("log in as one (-auth digest:super:…; DigestAuthenticationProvider.superDigest in zoo.cfg); from then on, the ACL of "+
			limit.Root+" decides who may change limits",
			"limits set: only a superuser can set the first limits")
	}
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	acl, err := s.aclLike(ctx, limit.Root)
	if err != nil {
		return err
	}
	_, err = s.client.Create(ctx, p.Znode(), []byte(text), zk.ModePersistent, acl)
	return err
}

// limitsACL lets everybody read limits, and lets only the client that has set the first ones change them.
var limitsACL = append(zk.WorldACL(zk.PermRead), zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}})

func runLimitsDelete(ctx context.Context, s *shell, a *args) error {
	p, err := s.limitPlace(a)
	if err != nil {
		return err
	}
	if err = s.client.Delete(ctx, p.Znode(), zk.AnyVersion); subtree.Gone(err) {
		return fmt.Errorf("%s has no limits of its own", p)
	}
	return err
}
