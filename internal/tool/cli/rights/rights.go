// Package rights says what a client may do with a znode, by its ACLs, the policy and the limits, as far as a client
// can know: servers tell the names of digest users but not the hashes, and not everybody may read the policy.
package rights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/zk"
)

// A Client is a client whose rights are in question.
type Client struct {
	Identities []zk.Identity  // as whoAmI returns them
	Policy     *policy.Policy // in force; nil for none
	Unread     string         // why it isn't known which policy is in force, as the end of a sentence; "" if it is
}

// May says whether an ACL and the policy grant a permission on a path: "yes", "no", "likely" or "unknown", followed
// by a colon and what decides if that isn't the ACL alone. path is the znode's own; if the znode is to be created or
// deleted, acl is its parent's.
func (c *Client) May(path string, acl []zk.ACL, want zk.Perm) string {
	if slices.ContainsFunc(c.Identities, func(id zk.Identity) bool { return id.Scheme == "super" }) {
		return "yes"
	}
	word := "no"
	for _, e := range acl {
		if e.Perms&want == 0 {
			continue
		}
		if by := Verdict(subtree.Admits(e, c.Identities)); slices.Index(verdicts, by) > slices.Index(verdicts, word) {
			word = by
		}
	}
	if word == "unknown" {
		word = "unknown: a provider may have a rule of its own for matching entries"
	}
	switch {
	case word == "no":
		return word
	case c.Unread != "":
		return "unknown: the ACL grants it; a policy may deny it, " + c.Unread
	case c.Policy == nil:
		return word
	}
	sure, likely := c.ids()
	if v := c.Policy.Decide(path, want, likely); v.By != nil {
		return "no: " + Line(v.By.Line, v.By.Text)
	} else if v.DryBy != nil {
		word += ": a dry run would deny it, " + Line(v.DryBy.Line, v.DryBy.Text)
	}
	if v := c.Policy.Decide(path, want, sure); v.By != nil && !strings.HasPrefix(word, "unknown") {
		return "likely: unless it is denied by " + Line(v.By.Line, v.By.Text)
	}
	return word
}

// ids returns the identities that the client has for certain, and its likely ones: those with the hashes that the
// policy has for the names of its digest users.
func (c *Client) ids() (sure, likely []zk.ID) {
	for _, id := range c.Identities {
		if id.Scheme != "digest" {
			sure = append(sure, zk.ID{Scheme: id.Scheme, ID: id.User})
		}
	}
	likely = slices.Clip(sure)
	for _, id := range c.Identities {
		if id.Scheme == "digest" {
			likely = append(likely, c.Policy.Digests(id.User)...)
		}
	}
	return sure, likely
}

// verdicts are the words of Verdict, from the least to the most that they promise.
var verdicts = []string{"no", "unknown", "likely", "yes"}

// Verdict returns the result of subtree.Admits as a word.
func Verdict(yes, sure bool) string {
	switch {
	case !yes && !sure:
		return "unknown"
	case !yes:
		return "no"
	case !sure:
		return "likely"
	}
	return "yes"
}

// Line names a line of the policy.
func Line(line int, text string) string {
	return fmt.Sprintf("line %d of the policy: %s", line, text)
}

// Who describes whom an identity stands for.
func Who(id zk.ID) string {
	switch id.Scheme {
	case "world":
		return "everybody"
	case "ip":
		return "clients at " + id.ID
	case "digest":
		user, _, _ := strings.Cut(id.ID, ":")
		return "whoever knows the password of " + user
	case "sasl":
		return "the SASL identity " + id.ID
	case "x509":
		return "the holder of the certificate " + id.ID
	}
	return "the " + id.Scheme + " identity " + id.ID
}

// Words describes what permissions allow.
func Words(p zk.Perm) string {
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

// Unsure returns an entry that may grant a permission to one of ids by a rule of its provider's own, which a client
// doesn't know; nil if there is none.
func Unsure(acl []zk.ACL, want zk.Perm, ids []zk.ID) *zk.ACL {
	given := make([]zk.Identity, len(ids))
	for i, id := range ids {
		given[i] = zk.Identity{Scheme: id.Scheme, User: id.ID}
	}
	for i, e := range acl {
		if _, sure := subtree.Admits(e, given); e.Perms&want != 0 && !sure && authprovider.IsScheme(e.ID.Scheme) {
			return &acl[i]
		}
	}
	return nil
}

// Decides says which entry of an ACL grants a permission, or that none does. The ACL is that of the znode called of.
func Decides(of string, acl []zk.ACL, want zk.Perm, ids []zk.ID) (by string, allowed bool) {
	if slices.ContainsFunc(ids, func(id zk.ID) bool { return id.Scheme == "super" }) {
		return "a superuser's identity", true
	}
	for _, e := range acl {
		if auth.Permits([]zk.ACL{e}, want, ids) {
			return fmt.Sprintf("the ACL of %s: %s:%s:%s", of, e.ID.Scheme, e.ID.ID, subtree.PermText(e.Perms)), true
		}
	}
	return "the ACL of " + of + ": no entry grants it", false
}
