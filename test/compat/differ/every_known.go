package differ

import (
	"slices"
	"strings"
)

// Bounds of Zooid's that Apache doesn't have.
const (
	aclEntriesMax    = 256
	identityBytesMax = 4096
	pathDepthMax     = 1000
)

// boundDifferences returns the known differences that only the scripts of every.go show: random scripts stay below
// the bounds, and can't compare the zxids of replies.
func boundDifferences() []known {
	return []known{
		{name: "entries of an ACL", ends: true, shows: func(s *step, a, b *seen) bool {
			return manyEntries(s) && (b.err == codeInvalidACL || fails(b, codeInvalidACL))
		}},
		{name: "identities", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.word == "auth" && b.err == codeAuthFailed &&
				(len(s.args[2].text) >= identityBytesMax || strings.HasPrefix(s.args[2].text, lastUser))
		}},
		{name: "what one client may use", ends: true, shows: func(s *step, a, b *seen) bool {
			return deep(s) && b.err == codeQuota
		}},
		{name: "zxid of a write that can't be read", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.code().IsWrite() && s.cut > 0 && a.err == codeMarshalling && b.err == codeMarshalling
		}},
	}
}

// lastUser is the login for which a connection has no room: its address is an identity, too.
const lastUser = "u63:"

const codeInvalidACL = "-114"

func manyEntries(s *step) bool {
	return slices.ContainsFunc(s.args, func(v value) bool { return len(v.list) > aclEntriesMax }) ||
		slices.ContainsFunc(s.subs, func(sub step) bool { return manyEntries(&sub) })
}

// deep reports whether a step creates a znode at a great depth.
func deep(s *step) bool {
	return s.code().IsCreate() && strings.Count(s.args[0].text, "/") > pathDepthMax ||
		slices.ContainsFunc(s.subs, func(sub step) bool { return deep(&sub) })
}
