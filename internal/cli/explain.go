package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/cli/advice"
	"github.com/zooid-project/zooid/internal/cli/screen"
	"github.com/zooid-project/zooid/internal/cli/subtree"
	"github.com/zooid-project/zooid/zk"
)

// aclEntryJSON is one entry of an ACL with what it means for this client.
type aclEntryJSON struct {
	aclJSON
	Means string `json:"means"`
	You   string `json:"you"` // yes, no, or likely
}

type explainJSON struct {
	Path    string            `json:"path"`
	Entries []aclEntryJSON    `json:"entries"`
	You     []string          `json:"you"`
	May     map[string]string `json:"may"` // by what: yes, no, or likely
}

// runExplain tells in words what an ACL grants, and to this client.
func runExplain(ctx context.Context, s *shell, a *args) error {
	path := a.arg(0)
	list, _, err := s.client.GetACL(ctx, path)
	if err != nil {
		return err
	}
	ids, err := s.whoAmI(ctx)
	if err != nil {
		return advice.Add(fmt.Errorf("acl explain %s: who am I: %w", path, err), "servers before 3.7 can't tell; getAcl shows the list alone")
	}
	v := explainJSON{Path: path, May: map[string]string{}}
	for _, id := range ids {
		v.You = append(v.You, id.Scheme+":"+id.User)
	}
	may := grants(list, ids)
	for _, e := range list {
		v.Entries = append(v.Entries, aclEntryJSON{
			aclJSON{e.ID.Scheme, e.ID.ID, subtree.PermText(e.Perms)}, whoText(e.ID) + " may " + permsText(e.Perms), verdict(subtree.Admits(e, ids)),
		})
	}
	for _, l := range subtree.PermLetters {
		v.May[l.Means] = may[l.Perm]
	}
	v.May["delete it"] = "no: the root can't be deleted"
	if path != "/" {
		v.May["delete it"] = s.mayDelete(ctx, subtree.Parent(path), ids)
	}
	s.out.Show(v, func() { s.printExplained(v) })
	return nil
}

// mayDelete asks the ACL above, which decides.
func (s *shell) mayDelete(ctx context.Context, above string, ids []zk.Identity) string {
	list, _, err := s.client.GetACL(ctx, above)
	if err != nil {
		return "unknown: the ACL of " + above + " can't be read"
	}
	return grants(list, ids)[zk.PermDelete]
}

// grants returns what the list says to each permission: yes, no, or likely.
func grants(list []zk.ACL, ids []zk.Identity) map[zk.Perm]string {
	may := map[zk.Perm]string{}
	for _, l := range subtree.PermLetters {
		may[l.Perm] = "no"
		for _, id := range ids {
			if id.Scheme == "super" {
				may[l.Perm] = "yes"
			}
		}
		for _, e := range list {
			if e.Perms&l.Perm == 0 || may[l.Perm] == "yes" {
				continue
			}
			if word := verdict(subtree.Admits(e, ids)); word != "no" {
				may[l.Perm] = word
			}
		}
	}
	return may
}

func verdict(yes, sure bool) string {
	switch {
	case !yes:
		return "no"
	case !sure:
		return "likely"
	}
	return "yes"
}

// whoText says in words whom an identity means.
func whoText(id zk.ID) string {
	switch id.Scheme {
	case "world":
		return "everybody"
	case "ip":
		return "clients at " + id.ID
	case "digest":
		user, _, _ := strings.Cut(id.ID, ":")
		return "who knows the password of " + user
	case "sasl":
		return "the SASL identity " + id.ID
	case "x509":
		return "the holder of the certificate " + id.ID
	}
	return "the " + id.Scheme + " identity " + id.ID
}

func permsText(p zk.Perm) string {
	var words []string
	for _, l := range subtree.PermLetters {
		if p&l.Perm != 0 {
			words = append(words, l.Means)
		}
	}
	if words == nil {
		return "do nothing"
	}
	return strings.Join(words, ", ")
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
	for _, word := range v.May {
		if word == "likely" {
			s.out.Printf("Likely: the user's name fits; servers don't tell whether the password does.\n")
			break
		}
	}
}

func (s *shell) printMay(what, word string) {
	colours := map[string]screen.Colour{"yes": screen.Green, "no": screen.Red, "likely": screen.Yellow}
	s.out.Printf("  %-28s %s\n", what, s.out.Paint(colours[word], word))
}
