package differ

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zooid-project/zooid/jute"
)

// known is a difference that docs/protocol.md lists under the same name. Any other difference is a bug.
type known struct {
	name string
	// shows reports whether a step shows the difference: a is what Apache showed, b what Zooid showed.
	shows func(s *step, a, b *seen) bool
	// ends says that the rest of a script can no longer be compared.
	ends bool
}

// The codes in known differences.
const (
	codeMarshalling   = "-5"
	codeUnimplemented = "-6"
	codeNoChildren    = "-108"
	codeAuthFailed    = "-115"
	codeQuota         = "-125"
)

// knownDifferences returns the known differences in the order of docs/protocol.md.
func knownDifferences() []known {
	return []known{
		{name: "deleteContainer from a client", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.word == "deleteContainer" && b.err == codeUnimplemented
		}},
		{name: "createSession from a client", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.code() == jute.OpCreateSession && b.err == codeUnimplemented
		}},
		{name: "null in a request", ends: true, shows: func(s *step, a, b *seen) bool {
			return !setsWatches(s) && !logsIn(s) && hasNull(s) && a.err == codeMarshalling && b.err == "0"
		}},
		{name: "null in a request", shows: func(s *step, a, b *seen) bool {
			return !setsWatches(s) && !logsIn(s) && hasNull(s) && b.err != ended &&
				(a.err == codeMarshalling || s.word == "sync")
		}},
		{name: "null list of watches", ends: true, shows: func(s *step, a, b *seen) bool {
			return setsWatches(s) && hasNull(s) && a.err == codeMarshalling && b.err == "0"
		}},
		{name: "unreadable auth or sasl", ends: true, shows: func(s *step, a, b *seen) bool {
			return logsIn(s) && (hasNull(s) || s.cut > 0) && (a.err == ended || a.err == codeAuthFailed)
		}},
		{name: "quota inside a multi", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.word == "multi" && fails(a, codeQuota) != fails(b, codeQuota)
		}},
		{name: "container of an ephemeral mode in a multi", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.word == "multi" && ephemeralContainer(s) && fails(a, codeNoChildren)
		}},
		{name: "body of a failed multiRead", shows: func(s *step, a, b *seen) bool {
			return s.word == "multiRead" && a.err == codeMarshalling && b.err == codeMarshalling && len(a.fields) > len(b.fields)
		}},
		{name: "connect request with a wrong password", ends: true, shows: func(s *step, a, b *seen) bool {
			return s.word == "connect" && (s.args[0].text == connectWrong || s.args[0].text == connectShort) &&
				len(a.lost) > 0 && len(b.lost) == 0
		}},
		{name: "paths that are not UTF-8 or leave the BMP",
			shows: func(s *step, a, b *seen) bool { return unusual(s) && a.err == b.err }},
	}
}

func logsIn(s *step) bool { return s.word == "auth" || s.word == "sasl" }

func setsWatches(s *step) bool { return s.word == "setWatches" || s.word == "setWatches2" }

// hasNull reports whether a required string or vector, or a part of an identity in an ACL, is null.
func hasNull(s *step) bool {
	for i := range s.args {
		v := &s.args[i]
		if v.null && !isData(s, i) {
			return true
		}
		for _, entry := range v.list {
			if strings.HasSuffix(entry, " -") || strings.Contains(entry, " - ") {
				return true
			}
		}
	}
	return slices.ContainsFunc(s.subs, func(sub step) bool { return hasNull(&sub) })
}

// isData reports whether an argument is a znode's data, which may be null.
func isData(s *step, i int) bool {
	return i == 1 && (strings.HasPrefix(s.word, "create") || s.word == "setData")
}

// unusual reports whether a string isn't UTF-8, or has characters that Java encodes as surrogate pairs.
func unusual(s *step) bool {
	odd := func(text string) bool {
		return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r > 0xffff })
	}
	for i := range s.args {
		if odd(s.args[i].text) || slices.ContainsFunc(s.args[i].list, odd) {
			return true
		}
	}
	return slices.ContainsFunc(s.subs, func(sub step) bool { return unusual(&sub) })
}

// fails reports whether a multi failed with a code.
func fails(s *seen, code string) bool {
	return slices.ContainsFunc(s.fields, func(f field) bool { return f.name == "number" && f.text == code })
}

// ephemeralContainer reports whether a multi creates a container with the flags of an ephemeral znode.
func ephemeralContainer(s *step) bool {
	return slices.ContainsFunc(s.subs, func(sub step) bool {
		return sub.word == "createContainer" && jute.CreateMode(sub.args[3].n).Ephemeral()
	})
}

// excuse returns the excuse function of a comparison: it finds the first known difference that a step shows.
func excuse(table []known) func(s *step, a, b *seen) (string, bool) {
	return func(s *step, a, b *seen) (string, bool) {
		for _, k := range table {
			if k.shows(s, a, b) {
				return k.name, k.ends
			}
		}
		return "", false
	}
}
