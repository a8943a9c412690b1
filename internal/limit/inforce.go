package limit

import (
	"cmp"
	"math"
	"strings"
	"sync/atomic"

	"github.com/zooid-project/zooid/jute"
)

// InForce holds the limits in force on a server: those of its configuration, and those of the children of Root, which
// override them. Only the use of the rates changes.
type InForce struct {
	Sets [Scopes]Set // for Path, the limits of the root

	// A connection's use counts for its address and its identity once it reaches so many requests or bytes.
	SpendRequests, SpendBytes int64

	paths map[string]*PathLimits // including the root
	below ByPath[PathLimits]     // the same without the root
	rated bool                   // some path has a limit of requests or bytes

	// A write whose record is no larger than bodyMin can't exceed a limit of data or depth. No write can exceed the other
	// limits while the tree has no more znodes than childrenMin, no more ephemerals than ephemeralsMin, and no more bytes
	// of their paths than half of pathBytesMax.
	bodyMin                    int
	childrenMin, ephemeralsMin int64
	pathBytesMax               int64 // of the ephemerals of a session
}

// The end of a session makes the whole path of each of its ephemerals, however many of them share a long one. So the
// bytes of the paths are bounded, too: pathBytesEach for each ephemeral that a connection may have, but at least
// pathBytesLeast.
const (
	pathBytesEach  = 320
	pathBytesLeast = 2 << 20
)

// Sizes are the sizes of a tree with which limits are compared.
type Sizes struct {
	Znodes, Ephemerals atomic.Int64
	EphemeralPaths     atomic.Int64 // bytes of the paths of the ephemerals
}

// SpendRequests and SpendBytes are at most these numbers, and at most one part in spendShare of the rate per second. If
// they were 0, many connections of one address would make processors contend for its counters at each batch.
const (
	SpendRequestsMax = 256
	spendBytesMax    = 64 << 10
	spendShare       = 4096
)

// Holders are the scopes whose connections share limits.
var Holders = [...]Scope{Address, Identity}

// NewInForce returns the limits of a configuration and of the texts that places have, or nil if there are none. A text
// that can't be parsed doesn't count: unfit is called with the reason. What was used of the limits in old, which may be
// nil, stays used.
func NewInForce(own [Scopes]Set, texts map[Place]string, old *InForce, unfit func(Place, error)) *InForce {
	parse := func(place Place, text string, base Set) Set {
		set, err := Parse(place.Scope, text, base)
		if err != nil {
			unfit(place, err)
			return base
		}
		return set
	}
	f := &InForce{Sets: own, paths: map[string]*PathLimits{}}
	for place, text := range texts { // any order: each sets its own scope
		if place.Scope != Path || place.Path == "/" {
			f.Sets[place.Scope] = parse(place, text, f.Sets[place.Scope])
		}
	}
	f.add("/", f.Sets[Path])
	below := f.Sets[Path]
	below[Requests], below[Bytes] = 0, 0 // a rate applies to one path alone
	for place, text := range texts {     // any order: each sets its own path
		if place.Scope == Path && place.Path != "/" {
			f.add(place.Path, parse(place, text, below))
		}
	}
	if len(texts) == 0 && f.Sets == ([Scopes]Set{}) {
		return nil
	}
	for path, p := range f.paths { // any order: each is independent
		if p.Used = new(Rates); old != nil && old.paths[path] != nil {
			p.Used = old.paths[path].Used
		}
	}
	f.finish()
	return f
}

func (f *InForce) add(path string, set Set) {
	p := &PathLimits{Path: path, Set: set}
	if f.paths[path] = p; path != "/" {
		f.below.Set(path, p)
	}
	f.rated = f.rated || set[Requests] > 0 || set[Bytes] > 0
}

// finish computes which requests can't exceed any limit.
func (f *InForce) finish() {
	least := func(k Kind) int64 {
		n := int64(math.MaxInt32)
		for _, p := range f.paths { // any order: the least of all
			if v := p.Set[k]; v > 0 {
				n = min(n, v)
			}
		}
		return n
	}
	// Each part of a path takes at least two bytes: a slash and a name.
	f.bodyMin = int(min(2*least(Depth), least(Value)))
	f.childrenMin = least(Children) - multiOpsSmall
	if f.ephemeralsMin = f.leastEphemerals(); f.ephemeralsMin < math.MaxInt64 {
		f.ephemeralsMin -= multiOpsSmall
	}
	f.pathBytesMax = math.MaxInt64
	if n := f.Sets[Connection][Ephemerals]; n > 0 {
		f.pathBytesMax = max(min(n, math.MaxInt64/pathBytesEach)*pathBytesEach, pathBytesLeast)
	}
	f.SpendRequests, f.SpendBytes = SpendRequestsMax, spendBytesMax
	for _, s := range Holders {
		if n := f.Sets[s][Requests]; n > 0 {
			f.SpendRequests = min(f.SpendRequests, n/spendShare)
		}
		if n := f.Sets[s][Bytes]; n > 0 {
			f.SpendBytes = min(f.SpendBytes, n/spendShare)
		}
	}
}

// leastEphemerals returns the smallest limit of ephemeral znodes of a connection or its owners; math.MaxInt64 if there
// is none.
func (f *InForce) leastEphemerals() int64 {
	least := int64(math.MaxInt64)
	for _, s := range [...]Scope{Connection, Address, Identity} {
		if n := f.Sets[s][Ephemerals]; n > 0 {
			least = min(least, n)
		}
	}
	return least
}

// multiOpsSmall is how many znodes one request can create whose record is so small that Concerns ignores it: the path
// of each takes at least a byte.
const multiOpsSmall = 1000

// unlimited applies to the znodes that hold the limits, so that limits can always be changed.
var unlimited = &PathLimits{Path: Root, Used: new(Rates)}

// Of returns the limits of a path: those of its nearest ancestor, or itself, that has limits of its
// own.
func (f *InForce) Of(path string) *PathLimits {
	if path == Root || strings.HasPrefix(path, Root+"/") {
		return unlimited
	}
	return cmp.Or(f.below.Nearest(path), f.paths["/"])
}

// Rated reports whether some path has a limit of requests or bytes.
func (f *InForce) Rated() bool { return f.rated }

// Concerns reports whether a request of size bytes might exceed a limit of its path or session. It is called for
// each request: for most it compares a few numbers.
func (f *InForce) Concerns(code jute.Op, writes bool, size int, tree *Sizes) bool {
	if !writes {
		return f.rated && hasPath(code) && code != jute.OpRemoveWatches // removeWatches only releases resources
	}
	return (size > f.bodyMin || f.rated || tree.Znodes.Load() > f.childrenMin ||
		tree.Ephemerals.Load() > f.ephemeralsMin || tree.EphemeralPaths.Load() > f.pathBytesMax/2) && hasPath(code)
}

// MayHold reports whether a session may have so many ephemerals with paths of so many bytes together.
func (f *InForce) MayHold(ephemerals, pathBytes int64) bool {
	most := f.Sets[Connection][Ephemerals]
	return most == 0 || ephemerals <= most && pathBytes <= f.pathBytesMax
}
