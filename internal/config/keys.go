package config

import (
	"reflect"
	"slices"
)

// where says where a key may be given. Elsewhere it is ignored with a warning; Apache ignores it silently.
type where int

const (
	inFile where = iota // zoo.cfg only
	asProp              // zoo.cfg as X, or -Dzookeeper.X
	onlyD               // -DX only: Apache reads the system property X, and zoo.cfg can only set zookeeper.X
)

// kind is the syntax of a value.
type kind int

const (
	text     kind = iota
	boolean       // true or false; of a property anything else is false
	yesNo         // yes or no; of a property only the word that isn't the default counts
	integer       // int32
	long          // int64
	decimal       // floating point
	millis        // a whole number of milliseconds
	seconds       // a whole number of seconds
	interval      // hours, or a number with ms, s, m, h or d
	javaInt       // int32, also hexadecimal (0x, #) or octal (0), as Integer.getInteger
	list          // separated by commas
	secret        // text that is never printed
	path          // a file or directory name
)

// key is one row: Apache's name of the key and its treatment here. Exactly one of field, unused and refused is set.
type key struct {
	name    string
	where   where
	kind    kind
	value   string   // default, as text; "" for none; Zooid's own if apache is set
	apache  string   // Apache's default where Zooid chose another
	low     int64    // least number allowed when bounded
	high    int64    // greatest number allowed when bounded
	bounded bool     // low and high count
	orLess  bool     // a number below low counts as low, as in Apache
	limit   string   // why high is lower than Apache's limit
	oneOf   []string // values allowed, whatever their case; nil for any
	plainD  bool     // -DX works as well as -Dzookeeper.X
	lax     bool     // Apache accepts the values that it can use and takes the default for any other

	field   func(*Config) any // where the value goes
	unused  string            // why the key has no effect
	refused string            // why the key is an error
	unless  string            // the default value, with which a refused key is not an error
}

// The reasons shared by several rows.
const (
	whyGroups = "hierarchical quorums are not supported: every voter counts as one. Remove the group and weight lines. Instead run as many voters " +
		"in each place as its weight should be (one or two in each of three places survive the loss of any one place), " +
		"and make all other servers observers (server.N=...:observer)"
	whyTuning     = "it tunes threads and buffers that only Apache's server has"
	whyElection   = "elections and followers need no tuning of this kind"
	whyPauses     = "it monitors the pauses of a Java virtual machine"
	whyWatches    = "there is one kind of watch table, and it cleans up at once"
	whyStats      = "statistics of requests are collected differently; see zooid top"
	whyQuorumSASL = "servers authenticate to each other by a secret, not by SASL: remove the lines that begin with quorum.auth, create a secret " +
		"(openssl rand -hex 32 >FILE; chmod 600 FILE), copy the file to all servers, and set quorum.secretFile=FILE on each; or set sslQuorum=true"
	whyTesting  = "it is a hook for tests and can damage data; remove it"
	whySnapshot = "snapshots have a different format"
	whyReloads  = "changed key and trust stores are always read again, for new connections"
	whyKerberos = "a server needs only its keytab and requests no tickets"
	whyConnects = "connects=N in limits.address bounds the rate of new connections; maxCnxns, maxClientCnxns and memory.limit bound their number"
	whyThrottle = "requests=N in limits.connection, limits.address and limits.identity bounds requests, and so do globalOutstandingLimit and memory.limit"
	whyDial     = "servers allow a second for each attempt to connect to each other, and retry until they succeed"
)

func honour(name string, w where, k kind, value string, field func(*Config) any) key {
	return key{name: name, where: w, kind: k, value: value, field: field}
}

func unused(name string, w where, k kind, value, why string) key {
	return key{name: name, where: w, kind: k, value: value, unused: why}
}

func refuse(name string, w where, k kind, unless, why string) key {
	return key{name: name, where: w, kind: k, value: unless, refused: why, unless: unless}
}

// in sets the bounds of a number.
func (k key) in(low, high int64) key {
	k.low, k.high, k.bounded = low, high, true
	return k
}

// orBelow makes any smaller number count as low.
func (k key) orBelow() key {
	k.orLess = true
	return k
}

// because says why the greatest number is less than Apache's.
func (k key) because(limit string) key {
	k.limit = limit
	return k
}

// of sets the values allowed.
func (k key) of(values ...string) key {
	k.oneOf = values
	return k
}

// orDefault makes what isn't a number count as the default, with a warning, as Java's Integer.getInteger has it, and
// numbers hexadecimal or octal as for Integer.decode. Of a boolean in zoo.cfg anything but true is false, as of a
// property.
func (k key) orDefault() key {
	k.lax = true
	return k
}

// was records Apache's default where Zooid's differs.
func (k key) was(apache string) key {
	k.apache = apache
	return k
}

// alsoPlain marks a property that -DX sets as well as -Dzookeeper.X.
func (k key) alsoPlain() key {
	k.plainD = true
	return k
}

// int32Max is the largest value of Java's int, the bound where a range has no other.
const int32Max = 1<<31 - 1

// ticksMax keeps twenty ticks, the default longest session, within 32 bits of milliseconds.
const ticksMax = int32Max / 20

// table returns every key by name. It is built on each call, so that no caller can change it for others.
func table() map[string]key {
	all := make(map[string]key)
	for _, k := range rows() {
		if _, dup := all[k.name]; dup {
			panic("config: the table has two rows for " + k.name)
		}
		all[k.name] = k
	}
	return all
}

// rows returns the table in the order of Apache's administrator's guide.
func rows() []key {
	var all []key
	for _, part := range [][]key{
		basicKeys(), storageKeys(), logKeys(), auditKeys(), limitKeys(), clusterKeys(), electionKeys(), treeKeys(),
		authKeys(),
		saslKeys(), tlsKeys("ssl.", asProp, func(c *Config) *TLS { return &c.TLS }),
		tlsKeys("ssl.quorum.", asProp, func(c *Config) *TLS { return &c.Quorum.TLS.TLS }),
		tlsPortKeys(), adminKeys(), absentKeys(), unusedKeys(), refusedKeys(),
	} {
		all = append(all, part...)
	}
	return all
}

// Changed returns the honoured keys whose values differ in two configurations, sorted. Server lines are one key,
// "server.N", and so are the other families.
func Changed(a, b *Config) []string {
	var names []string
	for _, k := range rows() {
		if k.field != nil && !reflect.DeepEqual(k.field(a), k.field(b)) {
			names = append(names, k.name)
		}
	}
	// If reconfig is enabled, the membership in the log counts.
	if !b.Quorum.ReconfigEnabled && a.Quorum.Members.String() != b.Quorum.Members.String() {
		names = append(names, "server.N")
	}
	if !slices.Equal(a.Auth.SASLSuperUsers, b.Auth.SASLSuperUsers) {
		names = append(names, "superUser")
	}
	if !slices.Equal(a.Auth.Schemes, b.Auth.Schemes) || !slices.Equal(a.Auth.Providers, b.Auth.Providers) ||
		!slices.Equal(a.Auth.External, b.Auth.External) {
		names = append(names, "authProvider.N")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
