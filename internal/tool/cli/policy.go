package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/rights"
	"github.com/zooid-project/zooid/zk"
)

// policyACL reserves the policy for its first creator, a superuser. Others may not even
// read it, as it may name hashes of passwords.
var policyACL = zk.CreatorACL()

// policyText returns the policy's text and version; text is nil if there is no policy.
func (s *shell) policyText(ctx context.Context, a *args) (text []byte, version int32, err error) {
	if s.chroot() != "" {
		return nil, 0, advice.Errorf("connect without the chroot and give whole paths",
			"%s: the policy lies outside of the chroot %s", a.cmd.name, s.chroot())
	}
	text, st, err := s.client.Get(ctx, policy.Path)
	switch {
	case subtree.Gone(err):
		return nil, 0, nil
	case errors.Is(err, zk.ErrNoAuth):
		return nil, 0, advice.Add(err, "log in as a superuser (-auth digest:super:…), or have the ACL of "+policy.Path+" changed")
	case err != nil:
		return nil, 0, err
	}
	return append([]byte{}, text...), st.Version, nil
}

func runPolicyGet(ctx context.Context, s *shell, a *args) error {
	text, _, err := s.policyText(ctx, a)
	if err != nil {
		return err
	}
	if text == nil {
		return advice.Errorf("policy set sets one; until then, only ACLs decide", "there is no policy")
	}
	if _, err := policy.Parse(text); err != nil {
		s.out.Notef("it can't be read and is not in force: %v", err)
	}
	s.out.Show(map[string]string{"policy": string(text)},
		func() { s.out.Printf("%s\n", strings.TrimSuffix(string(text), "\n")) })
	return nil
}

// policyFile reads and checks a file.
func policyFile(a *args) ([]byte, *policy.Policy, error) {
	f, err := os.Open(a.arg(0))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text := make([]byte, policy.TextBytesMax+1) // Parse refuses a text that fills it
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, fmt.Errorf("read %s: %w", a.arg(0), err)
	}
	p, err := policy.Parse(text[:n])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", a.arg(0), err)
	}
	return text[:n], p, nil
}

func runPolicyCheck(_ context.Context, s *shell, a *args) error {
	_, p, err := policyFile(a)
	if err != nil {
		return err
	}
	s.showCounts(p)
	return nil
}

func (s *shell) showCounts(p *policy.Policy) {
	var c policy.Counts
	if p != nil {
		c = p.Counts()
	}
	s.out.Show(map[string]int{"roles": c.Roles, "deny": c.Rules, "dryrun": c.Dry, "new": c.Defaults}, func() {
		s.out.Printf("%d roles, %d deny rules, %d in a dry run, %d ACLs of new znodes\n", c.Roles, c.Rules, c.Dry, c.Defaults)
	})
}

func runPolicySet(ctx context.Context, s *shell, a *args) error {
	text, p, err := policyFile(a)
	if err != nil {
		return err
	}
	old, version, err := s.policyText(ctx, a)
	if err != nil {
		return err
	}
	if old != nil {
		_, err = s.client.Set(ctx, policy.Path, text, version)
	} else {
		_, err = s.client.Create(ctx, policy.Path, text, zk.ModePersistent, policyACL)
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL):
		return advice.Add(err,
			"only a superuser can set the first policy (-auth digest:super:…); from then on the ACL of "+policy.Path+" decides")
	case errors.Is(err, zk.ErrUnimplemented):
		return advice.Add(err, "a server of the ensemble runs a version without policies: upgrade all servers, and try again")
	case err != nil:
		return err
	}
	s.showCounts(p)
	return nil
}

// policyJSON is the result of policy explain.
type policyJSON struct {
	Path    string `json:"path"`
	Allowed bool   `json:"allowed"`
	By      string `json:"by"`               // the deciding rule or ACL
	DryRun  string `json:"dryrun,omitempty"` // the rule that would deny it
	NewACL  string `json:"newAcl,omitempty"` // the rule that gives the ACL
}

// runPolicyExplain prints which line of the policy, or which ACL, decides.
func runPolicyExplain(ctx context.Context, s *shell, a *args) error {
	path := a.arg(0)
	want, err := policy.ParsePerms(a.arg(1))
	if err != nil || want&(want-1) != 0 {
		return a.usagef("%s: want one of read, write, create, delete, admin", a.arg(1))
	}
	var ids []zk.ID
	for _, text := range a.words[2:] {
		scheme, id, _ := strings.Cut(text, ":")
		ids = append(ids, zk.ID{Scheme: scheme, ID: id})
	}
	text, _, err := s.policyText(ctx, a)
	if err != nil {
		return err
	}
	p, err := policy.Parse(text)
	if err != nil {
		return fmt.Errorf("the policy can't be read and is not in force: %w", err)
	}
	of := path
	if want == zk.PermCreate || want == zk.PermDelete {
		of = subtree.Parent(path)
	}
	acl, _, err := s.client.GetACL(ctx, of)
	if subtree.Gone(err) { // rules are about paths, and also apply to znodes that don't exist yet
		if p == nil || p.Decide(path, want, ids).By == nil {
			return advice.Errorf("once it exists, its ACL decides; policy explain "+path+" create shows who may create it",
				"there is no znode %s, and no rule of the policy denies it", of)
		}
		acl, err = zk.WorldACL(zk.PermAll), nil
	}
	if err != nil {
		return fmt.Errorf("the ACL of %s: %w", of, err)
	}
	if hidden(acl) {
		s.out.Notef("the ACL of %s is shown without the hashes of its digests: log in with an identity that may set it", of)
	}
	if e := rights.Unsure(acl, want, ids); e != nil {
		s.out.Notef("%s:%s is compared by equality here; the provider of %s may have a rule of its own",
			e.ID.Scheme, e.ID.ID, e.ID.Scheme)
	}
	v := policyJSON{Path: path}
	if v.By, v.Allowed = rights.Decides(of, acl, want, ids); v.Allowed && p != nil {
		switch found := p.Decide(path, want, ids); {
		case found.By != nil:
			v.Allowed, v.By = false, rights.Line(found.By.Line, found.By.Text)
		case found.DryBy != nil:
			v.DryRun = rights.Line(found.DryBy.Line, found.DryBy.Text)
		}
		if d := p.DefaultOf(path); v.Allowed && want == zk.PermCreate && d != nil {
			v.NewACL = rights.Line(d.Line, d.Text)
		}
	}
	s.out.Show(v, func() { s.printPolicy(v) })
	return nil
}

func (s *shell) printPolicy(v policyJSON) {
	word := "denied"
	if v.Allowed {
		word = "allowed"
	}
	s.out.Printf("%s by %s\n", word, s.out.Name(v.By))
	if v.DryRun != "" {
		s.out.Printf("would be denied by %s\n", s.out.Name(v.DryRun))
	}
	if v.NewACL != "" {
		s.out.Printf("world:anyone:cdrwa becomes the ACL of %s\n", s.out.Name(v.NewACL))
	}
}
