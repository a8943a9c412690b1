package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/rights"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// aclEntryJSON is one entry of an ACL and its meaning for this client.
type aclEntryJSON struct {
	aclJSON
	Means string `json:"means"`
	You   string `json:"you"` // yes, no, or likely
}

type explainJSON struct {
	Path    string            `json:"path"`
	Entries []aclEntryJSON    `json:"entries"`
	You     []string          `json:"you"`
	May     map[string]string `json:"may"`              // by action: yes, no, likely or unknown, then a colon and why
	NewACL  string            `json:"newAcl,omitempty"` // the rule that sets the ACL of new znodes below
}

// runExplain explains which permissions an ACL grants, to which identities and to this client, and the policy's effect
// on them.
func runExplain(ctx context.Context, s *shell, a *args) error {
	path := a.arg(0)
	list, _, err := s.client.GetACL(ctx, path)
	if err != nil {
		return err
	}
	ids, err := s.whoAmI(ctx)
	if err != nil {
		return advice.Add(fmt.Errorf("acl explain %s: who am I: %w", path, err), "servers before 3.7 don't report identities; getAcl shows only the list")
	}
	v := explainJSON{Path: path, May: map[string]string{}}
	for _, id := range ids {
		v.You = append(v.You, id.Scheme+":"+id.User)
	}
	who, err := s.subject(ctx, a, ids)
	if err != nil {
		return fmt.Errorf("acl explain %s: read the policy: %w", path, err)
	}
	for _, e := range list {
		v.Entries = append(v.Entries, aclEntryJSON{
			aclJSON{e.ID.Scheme, e.ID.ID, subtree.PermText(e.Perms)}, rights.Who(e.ID) + " may " + rights.Words(e.Perms),
			rights.Verdict(subtree.Admits(e, ids)),
		})
	}
	for _, l := range subtree.PermLetters {
		v.May[l.Means] = who.May(path, list, l.Perm)
	}
	if d := who.Policy.DefaultOf(path); d != nil {
		v.NewACL = rights.Line(d.Line, d.Text)
	}
	v.May["delete it"] = "no: the root can't be deleted"
	if path != "/" {
		v.May["delete it"] = s.mayDelete(ctx, path, who)
	}
	s.out.Show(v, func() { s.printExplained(v) })
	return nil
}

// subject returns the rights.Client that stands for this client.
func (s *shell) subject(ctx context.Context, a *args, ids []zk.Identity) (*rights.Client, error) {
	who := &rights.Client{Identities: ids}
	if s.chroot() != "" {
		who.Unread = "if there is one: it lies outside of the chroot"
		return who, nil
	}
	text, _, err := s.policyText(ctx, a)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		who.Unread = "but you may not read it"
		return who, nil
	case err != nil:
		return nil, err
	}
	if who.Policy, err = policy.Parse(text); err != nil {
		s.out.Notef("the policy can't be read and is not in force: %v", err)
	}
	return who, nil
}

// mayDelete checks the parent's ACL, which decides on deletes, and the policy.
func (s *shell) mayDelete(ctx context.Context, path string, who *rights.Client) string {
	above := subtree.Parent(path)
	list, _, err := s.client.GetACL(ctx, above)
	if err != nil {
		return "unknown: the ACL of " + above + " can't be read"
	}
	return who.May(path, list, zk.PermDelete)
}

func (s *shell) printExplained(v explainJSON) {
	s.out.Printf("%s\n", s.out.Name(v.Path))
	for _, e := range v.Entries {
		s.out.Printf("  %s:%s:%s\n    %s; you: %s\n", e.Scheme, s.out.Name(e.ID), e.Perms, s.out.Name(e.Means), e.You)
	}
	s.out.Printf("You are %s. You may\n", s.out.Name(strings.Join(v.You, ", ")))
	for _, l := range subtree.PermLetters {
		s.printMay(l.Means, v.May[l.Means])
	}
	s.printMay("delete it", v.May["delete it"])
	if v.NewACL != "" {
		s.out.Printf("New znodes with the ACL world:anyone:cdrwa get that of %s\n", s.out.Name(v.NewACL))
	}
	for _, word := range v.May {
		if strings.HasPrefix(word, "likely") {
			s.out.Printf("Likely: the user's name matches; servers don't show whether the password does.\n")
			break
		}
	}
}

func (s *shell) printMay(what, may string) {
	colours := map[string]screen.Colour{
		"yes": screen.Green, "no": screen.Red, "likely": screen.Yellow, "unknown": screen.Yellow,
	}
	word, why, _ := strings.Cut(may, ":")
	if why != "" {
		why = s.out.Name(":" + why)
	}
	s.out.Printf("  %-28s %s%s\n", what, s.out.Paint(colours[word], word), why)
}
