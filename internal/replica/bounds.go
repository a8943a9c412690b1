package replica

import (
	"cmp"
	"math"
	"strings"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The limits of clients (package limit) come from a server's configuration; znodes below limit.Root
// override it on all servers. Each server enforces them on its own clients, before their requests
// reach the log: all servers apply the log alike. So requests that are still on their way to the
// tree can exceed a limit on its contents.

// boundsMax bounds the znodes below limit.Root that are read; if there are more, none is in
// force.
const boundsMax = 1000

// bounds are the limits in force. They are immutable once stored.
type bounds struct {
	sets  [limit.Scopes]limit.Set // for limit.Path, the limits of the root
	paths map[string]*pathBound   // including the root
	below limit.ByPath[pathBound] // the same without the root
	rated bool                    // some path has a limit of requests or bytes

	// A write whose record is no larger than bodyMin can't exceed a limit of data or depth. No write
	// can exceed the other limits while the tree has no more znodes than childrenMin and no more
	// ephemerals than ephemeralsMin.
	bodyMin                    int
	childrenMin, ephemeralsMin int64

	spendRequests, spendBytes int64 // see spend
}

// A pathBound holds the limits of a path and of its descendants without limits of their own.
type pathBound struct {
	path string
	set  limit.Set
	used *rates // kept when the limits change
}

// rates track the use of the request limit and of the byte limit.
type rates struct{ requests, bytes limit.Rate }

func (u *rates) use(now, requests, bytes int64, of *limit.Set) {
	u.requests.Use(now, requests, of[limit.Requests])
	u.bytes.Use(now, bytes, of[limit.Bytes])
}

// owes returns how long (ns) nothing more may be used, and which of the two limits is the reason.
func (u *rates) owes(now int64) (int64, limit.Kind) {
	requests, bytes := u.requests.Owes(now), u.bytes.Owes(now)
	if bytes > requests {
		return bytes, limit.Bytes
	}
	return requests, limit.Requests
}

// A limiter enforces the limits in force on this server's clients.
type limiter struct {
	*outside
	*state
	watches *watches

	addresses, identified owners
	inForce               atomic.Pointer[bounds] // nil for none
	znodes, ephemerals    atomic.Int64           // their numbers in the tree

	// Guarded by state.mu.
	own     [limit.Scopes]limit.Set // of this server's configuration
	changed bool                    // the limits in the tree have changed since they were read
}

// SetLimits puts other limits in force, for places without a znode that sets limits.
func (l *limiter) SetLimits(sets [limit.Scopes]limit.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = sets
	l.read()
}

// Limits returns the limits in force; those for limit.Path are the limits of the root.
func (l *limiter) Limits() [limit.Scopes]limit.Set {
	if b := l.inForce.Load(); b != nil {
		return b.sets
	}
	return [limit.Scopes]limit.Set{}
}

// read puts in force the limits of the configuration and the tree; mu is held for writing.
func (l *limiter) read() {
	l.changed = false
	b := &bounds{sets: l.own, paths: map[string]*pathBound{}}
	texts := l.boundTexts()
	for place, text := range texts { // any order: each sets its own scope
		if place.Scope != limit.Path || place.Path == "/" {
			b.sets[place.Scope] = l.parseBound(place, text, b.sets[place.Scope])
		}
	}
	b.add("/", b.sets[limit.Path])
	below := b.sets[limit.Path]
	below[limit.Requests], below[limit.Bytes] = 0, 0 // a rate applies to one path alone
	for place, text := range texts {                 // any order: each sets its own path
		if place.Scope == limit.Path && place.Path != "/" {
			b.add(place.Path, l.parseBound(place, text, below))
		}
	}
	old := l.inForce.Load()
	for path, p := range b.paths { // any order: each is independent
		if p.used = new(rates); old != nil && old.paths[path] != nil {
			p.used = old.paths[path].used
		}
	}
	if b.finish(); len(texts) == 0 && b.sets == ([limit.Scopes]limit.Set{}) {
		b = nil
	}
	l.inForce.Store(b)
}

func (b *bounds) add(path string, set limit.Set) {
	p := &pathBound{path: path, set: set}
	if b.paths[path] = p; path != "/" {
		b.below.Set(path, p)
	}
	b.rated = b.rated || set[limit.Requests] > 0 || set[limit.Bytes] > 0
}

// finish computes which requests can't exceed any limit.
func (b *bounds) finish() {
	least := func(k limit.Kind) int64 {
		n := int64(math.MaxInt32)
		for _, p := range b.paths { // any order: the least of all
			if v := p.set[k]; v > 0 {
				n = min(n, v)
			}
		}
		return n
	}
	// Each part of a path takes at least two bytes: a slash and a name.
	b.bodyMin = int(min(2*least(limit.Depth), least(limit.Value)))
	b.childrenMin = least(limit.Children) - multiOpsSmall
	if b.ephemeralsMin = b.leastEphemerals(); b.ephemeralsMin < math.MaxInt64 {
		b.ephemeralsMin -= multiOpsSmall
	}
	b.spendRequests, b.spendBytes = spendRequestsMax, spendBytesMax
	for _, s := range holders {
		if n := b.sets[s][limit.Requests]; n > 0 {
			b.spendRequests = min(b.spendRequests, n/spendShare)
		}
		if n := b.sets[s][limit.Bytes]; n > 0 {
			b.spendBytes = min(b.spendBytes, n/spendShare)
		}
	}
}

// multiOpsSmall is how many znodes one request can create whose record is so small that concerns
// doesn't look at it: the path of each takes at least a byte.
const multiOpsSmall = 1000

// unbounded applies to the znodes that hold the limits, so that limits can always be changed.
var unbounded = &pathBound{path: limit.Root, used: new(rates)}

// of returns the limits of a path: those of its nearest ancestor, or itself, that has limits of its
// own.
func (b *bounds) of(path string) *pathBound {
	if path == limit.Root || strings.HasPrefix(path, limit.Root+"/") {
		return unbounded
	}
	return cmp.Or(b.below.Nearest(path), b.paths["/"])
}

// boundTexts returns the limits that the tree holds, by place; mu is held.
func (l *limiter) boundTexts() map[limit.Place]string {
	texts := map[limit.Place]string{}
	if stat, ok := l.tree.Stat(limit.Root); !ok || stat.NumChildren == 0 {
		return texts
	} else if stat.NumChildren > boundsMax {
		l.log.Warn("there are too many limits: none of them is in force", "below", limit.Root,
			"znodes", stat.NumChildren, "most", boundsMax)
		return texts
	}
	reply, code := l.tree.AppendGetChildren(nil, limit.Root, asSuper())
	if code != jute.OK {
		return texts
	}
	for _, name := range jute.NewDecoder(reply).Strings() {
		place, ok := limit.PlaceOf(name)
		if !ok {
			l.log.Warn("a limit can't be parsed and is not in force", "znode", limit.Root+"/"+name,
				"err", "its name is no scope and no path")
			continue
		}
		if data, code := l.tree.AppendGetData(nil, limit.Root+"/"+name, asSuper()); code == jute.OK {
			texts[place] = string(jute.NewDecoder(data).Buffer())
		}
	}
	return texts
}

// parseBound parses the limits of a place, on top of base; if they can't be parsed, base applies.
func (l *limiter) parseBound(place limit.Place, text string, base limit.Set) limit.Set {
	set, err := limit.Parse(place.Scope, text, base)
	if err != nil {
		l.log.Warn("a limit can't be parsed and is not in force", "znode", place.Znode(), "err", err)
		return base
	}
	return set
}

// noteBounds records whether an event changes limits; mu is held for writing.
func (l *limiter) noteBounds(ev *tree.Event) {
	if len(ev.Path) > len(limit.Root) && strings.HasPrefix(ev.Path, limit.Root+"/") {
		l.changed = true
	}
}

// noteSizes updates the sizes that bounds.concerns checks and the version of the membership, after each Apply; mu is
// held for writing.
func (r *Replica) noteSizes() {
	r.members.version.Store(r.tree.MembersVersion())
	if r.limiter.changed {
		r.limiter.read()
	}
	r.limiter.znodes.Store(int64(r.tree.NodeCount()))
	r.limiter.ephemerals.Store(int64(r.tree.EphemeralsCount()))
}
