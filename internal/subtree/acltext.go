package subtree

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// permLetter is the letter of a permission, and what the permission allows.
type permLetter struct {
	letter byte
	Perm   zk.Perm
	Means  string
}

// PermLetters are the permissions in the order zkCli prints them.
var PermLetters = []permLetter{
	{'c', zk.PermCreate, "create children"},
	{'d', zk.PermDelete, "delete children"},
	{'r', zk.PermRead, "read data and list children"},
	{'w', zk.PermWrite, "write data"},
	{'a', zk.PermAdmin, "set the ACL"},
}

// PermText returns the letters of permissions, as in cdrwa.
func PermText(p zk.Perm) string {
	var b strings.Builder
	for _, l := range PermLetters {
		if p&l.Perm != 0 {
			b.WriteByte(l.letter)
		}
	}
	return b.String()
}

// An ACLError says what is wrong with an ACL's text, and where.
type ACLError struct {
	Text   string
	Offset int // byte offset of the offending part
	Reason string
}

func (e *ACLError) Error() string {
	return fmt.Sprintf("ACL %q, byte %d: %s", e.Text, e.Offset, e.Reason)
}

// ParseACL parses scheme:id:perms,… where the id may contain colons and, in the scheme
// x509, commas. zkCli drops the entries it can't parse and goes on; here they are an
// error.
func ParseACL(text string) ([]zk.ACL, error) {
	var list []zk.ACL
	for at := 0; at <= len(text); {
		end := entryEnd(text, at)
		e, offset, reason := ParseEntry(text[at:end])
		if reason != "" {
			return nil, advice.Add(&ACLError{text, at + offset, reason},
				"as in world:anyone:cdrwa, ip:10.0.0.0/8:r, auth::cdrwa; text with blanks needs quotes; help setAcl tells more")
		}
		list = append(list, e)
		at = end + 1
	}
	return list, nil
}

// entryEnd returns where the entry that begins at a byte ends: at a comma or at the
// end. A certificate's subject has commas of its own; the entry goes on until it can be
// parsed.
func entryEnd(text string, at int) int {
	for end := at; ; end++ {
		if comma := strings.IndexByte(text[end:], ','); comma >= 0 {
			end += comma
		} else {
			end = len(text)
		}
		if _, _, reason := ParseEntry(text[at:end]); reason == "" || end == len(text) ||
			!strings.HasPrefix(text[at:], "x509:") {
			return end
		}
	}
}

// ParseEntry parses one entry, or returns the reason why it can't, and where. It
// refuses what servers refuse in the schemes that all servers have; other schemes are
// for the server to judge.
func ParseEntry(entry string) (e zk.ACL, offset int, reason string) {
	first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
	if first < 0 || first == last {
		return e, 0, entry + " does not have the form scheme:id:perm"
	}
	if first == 0 {
		return e, 0, "there is no scheme before the colon"
	}
	e.ID = zk.ID{Scheme: entry[:first], ID: entry[first+1 : last]}
	for i := last + 1; i < len(entry); i++ {
		at := slices.IndexFunc(PermLetters, func(l permLetter) bool { return l.letter == entry[i] })
		if at < 0 {
			return e, i, fmt.Sprintf("Unknown perm type: %c", entry[i])
		}
		e.Perms |= PermLetters[at].Perm
	}
	id := e.ID.ID
	switch e.ID.Scheme {
	case "world":
		if id != "anyone" {
			reason = "the only id of the scheme world is anyone"
		}
	case "ip":
		if !isNetwork(id) {
			reason = id + " is neither an address nor a network such as 10.0.0.0/8"
		}
	case "digest":
		if strings.Count(id, ":") != 1 {
			reason = "a digest is user:hash; auth::perms, after addauth, saves working out the hash"
		}
	}
	return e, first + 1, reason
}

// ACLText returns a list in the form that ParseACL reads.
func ACLText(list []zk.ACL) string { return strings.Join(ACLEntries(list), ",") }

// ACLEntries returns a list's entries in the form that ParseEntry reads.
func ACLEntries(list []zk.ACL) []string {
	entries := make([]string, len(list))
	for i, e := range list {
		entries[i] = e.ID.Scheme + ":" + e.ID.ID + ":" + PermText(e.Perms)
	}
	return entries
}

// isNetwork reports whether text is an address or a network.
func isNetwork(text string) bool {
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}
