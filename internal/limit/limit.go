// Package limit defines the limits of clients: their names, scopes and text form, rates, those in force on a server,
// and which requests exceed those of a path.
package limit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Scope is a class of things with limits. Each connection, address, identity and path has its own limits.
type Scope int

// The scopes.
const (
	Connection Scope = iota
	Address          // of a client: an IPv4 address, or an IPv6 network of 64 bits
	Identity         // a proved identity; only the first identity of a client counts
	Path             // a znode and everything below it
	Scopes           // how many there are
)

var scopeNames = [...]string{"connection", "address", "identity", "path"}

// String returns the scope's name.
func (s Scope) String() string { return scopeNames[s] }

// A Kind is a limited quantity.
type Kind int

// The kinds. Rates are per second.
const (
	Connections Kind = iota // open at the same time
	Connects                // new connections per second
	Requests                // per second
	Bytes                   // of requests, per second
	Watches
	Ephemerals
	Sessions // that have begun and haven't ended, connected or not
	Value    // bytes of a znode's data
	Children // of a znode
	Depth    // parts of a path
	Kinds    // how many there are
)

var kindNames = [...]string{
	"connections", "connects", "requests", "bytes", "watches", "ephemerals", "sessions", "value", "children", "depth",
}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// kindsOf has the kinds of limit of each scope.
var kindsOf = [Scopes][]Kind{
	Connection: {Requests, Bytes, Watches, Ephemerals},
	Address:    {Connects, Requests, Bytes, Watches, Ephemerals, Sessions},
	Identity:   {Connections, Requests, Bytes, Watches, Ephemerals, Sessions},
	Path:       {Requests, Bytes, Value, Children, Depth},
}

// The defaults are generous: far more than any known program needs, but less than what would harm a server or make
// znodes that no client can list.
var defaults = [Scopes]Set{
	Connection: {Requests: 1_000_000, Bytes: 1 << 30, Watches: 1_000_000, Ephemerals: 100_000},
	Address: {
		Connects: 10_000, Requests: 2_000_000, Bytes: 2 << 30, Watches: 10_000_000, Ephemerals: 1_000_000,
		Sessions: sessionsDefault,
	},
	Identity: {
		Connections: 10_000, Requests: 2_000_000, Bytes: 2 << 30, Watches: 10_000_000, Ephemerals: 1_000_000,
		Sessions: sessionsDefault,
	},
	Path: {Children: 5_000_000, Depth: 1_000},
}

// sessionsDefault is more than one address can have connected. An address has some 28,000 ports for connections to each
// server, and ensembles have at most seven servers. The sessions take some 100 MB.
const sessionsDefault = 200_000

// Default returns the limits of a scope that apply if none are set.
func Default(s Scope) Set { return defaults[s] }

// A Set holds one limit of each kind; 0 means no limit.
type Set [Kinds]int64

// TextBytesMax bounds the text of limits, and ValueMax the numbers in it.
const (
	TextBytesMax = 1 << 10
	ValueMax     = 1 << 40
)

// Parse parses limits of a scope: kind=number, separated by blanks or commas. Limits that aren't in the text are taken
// from base.
func Parse(s Scope, text string, base Set) (Set, error) {
	if len(text) > TextBytesMax {
		return base, fmt.Errorf("the limits take %d bytes; at most %d are read", len(text), TextBytesMax)
	}
	for _, part := range parts(text) {
		name, number, _ := strings.Cut(part, "=")
		at := slices.Index(kindNames[:], name)
		if at < 0 || !slices.Contains(kindsOf[s], Kind(at)) {
			return base, fmt.Errorf("%.40q isn't a limit of the scope %s, which has %s", name, s, namesOf(s))
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > ValueMax {
			return base, fmt.Errorf("%s=%.40q: want a number from 1 to %d, or 0 for no limit", name, number, int64(ValueMax))
		}
		base[at] = n
	}
	return base, nil
}

// parts splits a text into its limits.
func parts(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\t' })
}

// Merge returns the text of the limits in more and of those in old that more doesn't have.
func Merge(old, more string) string {
	var merged []string
	for _, part := range append(parts(old), parts(more)...) { // the last one with a name counts
		name, _, _ := strings.Cut(part, "=")
		merged = slices.DeleteFunc(merged, func(p string) bool { return strings.HasPrefix(p, name+"=") })
		merged = append(merged, part)
	}
	slices.Sort(merged)
	return strings.Join(merged, " ")
}

// Exceeded returns the first limit that is below the number of its kind, as kind=limit, or "".
func (l *Set) Exceeded(numbers *[Kinds]int64) string {
	for k, most := range l {
		if most > 0 && numbers[k] > most {
			return fmt.Sprintf("%s=%d", Kind(k), most)
		}
	}
	return ""
}

func namesOf(s Scope) string {
	var names []string
	for _, k := range kindsOf[s] {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

// Text returns the limits of a scope in the form of Parse.
func (l Set) Text(s Scope) string {
	var b strings.Builder
	for _, k := range kindsOf[s] {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", k, l[k])
	}
	return b.String()
}
