package replica

import (
	"math"
	"strings"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The limits of clients (package limit). A server's configuration has them, and znodes below
// limit.Root have what holds on all servers instead. Each server holds its own clients to
// them before the log: what is in the log is applied alike everywhere. So a limit on what the
// tree holds can be exceeded by what is on its way there.

// boundsMax is how many znodes below limit.Root are read; with more of them none counts.
const boundsMax = 1000

// bounds are the limits in force. They never change once they are.
type bounds struct {
	sets  [limit.Scopes]limit.Set // of a path: that of the root
	paths map[string]*pathBound   // the root among them
	rated bool                    // a path has a limit of requests or bytes

	// A write whose record is no larger than bodyMin exceeds no limit of data or depth. None
	// exceeds the others while the tree has no more znodes, and ephemeral ones, than these.
	bodyMin                    int
	childrenMin, ephemeralsMin int64
}

// A pathBound holds the limits of a path and of its descendants without limits of their own.
type pathBound struct {
	path string
	set  limit.Set
	used *rates // kept when the limits change
}

// rates are how much was used of two limits.
type rates struct{ requests, bytes limit.Rate }

func (u *rates) use(now, requests, bytes int64, of *limit.Set) {
	u.requests.Use(now, requests, of[limit.Requests])
	u.bytes.Use(now, bytes, of[limit.Bytes])
}

// owes returns for how long (ns) nothing more may be used, and which limit it is.
func (u *rates) owes(now int64) (int64, limit.Kind) {
	requests, bytes := u.requests.Owes(now), u.bytes.Owes(now)
	if bytes > requests {
		return bytes, limit.Bytes
	}
	return requests, limit.Requests
}

// SetLimits puts other limits in force, where no znode has any.
func (r *Replica) SetLimits(sets [limit.Scopes]limit.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ownBounds = sets
	r.readBounds()
}

// Limits returns the limits in force; of a path those of the root.
func (r *Replica) Limits() [limit.Scopes]limit.Set {
	if b := r.bounds.Load(); b != nil {
		return b.sets
	}
	return [limit.Scopes]limit.Set{}
}

// readBounds puts in force what the configuration and the tree say; mu is held alone.
func (r *Replica) readBounds() {
	r.boundsChanged = false
	b := &bounds{sets: r.ownBounds, paths: map[string]*pathBound{}}
	texts := r.boundTexts()
	for place, text := range texts { // any order: each is one set
		if place.Scope != limit.Path || place.Path == "/" {
			b.sets[place.Scope] = r.parseBound(place, text, b.sets[place.Scope])
		}
	}
	b.add("/", b.sets[limit.Path])
	below := b.sets[limit.Path]
	below[limit.Requests], below[limit.Bytes] = 0, 0 // a rate is of one path alone
	for place, text := range texts {                 // any order: each is one path
		if place.Scope == limit.Path && place.Path != "/" {
			b.add(place.Path, r.parseBound(place, text, below))
		}
	}
	old := r.bounds.Load()
	for path, p := range b.paths { // any order: each for itself
		if p.used = new(rates); old != nil && old.paths[path] != nil {
			p.used = old.paths[path].used
		}
	}
	if b.finish(); len(texts) == 0 && b.sets == ([limit.Scopes]limit.Set{}) {
		b = nil
	}
	r.bounds.Store(b)
}

func (b *bounds) add(path string, set limit.Set) {
	b.paths[path] = &pathBound{path: path, set: set}
	b.rated = b.rated || set[limit.Requests] > 0 || set[limit.Bytes] > 0
}

// finish works out which requests can't exceed any limit.
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
	// Each part of a path has a slash and a name.
	b.bodyMin = int(min(2*least(limit.Depth), least(limit.Value)))
	b.childrenMin, b.ephemeralsMin = least(limit.Children)-multiOpsSmall, int64(math.MaxInt64)
	if n := b.sets[limit.Connection][limit.Ephemerals]; n > 0 {
		b.ephemeralsMin = n - multiOpsSmall
	}
}

// multiOpsSmall is how many znodes one request can create whose record is not looked at for
// the sake of its size: its path alone takes a byte.
const multiOpsSmall = 1000

// unbounded are the limits of limits, which can always be changed.
var unbounded = &pathBound{path: limit.Root, used: new(rates)}

// of returns what limits a path: the longest that has limits of its own.
func (b *bounds) of(path string) *pathBound {
	if path == limit.Root || strings.HasPrefix(path, limit.Root+"/") {
		return unbounded
	}
	for len(b.paths) > 1 && len(path) > 1 {
		if p := b.paths[path]; p != nil {
			return p
		}
		at := strings.LastIndexByte(path, '/')
		if at < 0 {
			break
		}
		path = path[:at]
	}
	return b.paths["/"]
}

// boundTexts returns the limits that the tree has, by place; mu is held.
func (r *Replica) boundTexts() map[limit.Place]string {
	texts := map[limit.Place]string{}
	if stat, ok := r.tree.Stat(limit.Root); !ok || stat.NumChildren == 0 {
		return texts
	} else if stat.NumChildren > boundsMax {
		r.log.Warn("there are more limits than are read: none of them is in force", "below", limit.Root, "znodes", stat.NumChildren, "most", boundsMax)
		return texts
	}
	reply, code := r.tree.AppendGetChildren(nil, limit.Root, asSuper())
	if code != jute.OK {
		return texts
	}
	for _, name := range jute.NewDecoder(reply).Strings() {
		place, ok := limit.PlaceOf(name)
		if !ok {
			r.log.Warn("a limit can't be read and is not in force", "znode", limit.Root+"/"+name, "err", "its name is no scope and no path")
			continue
		}
		if data, code := r.tree.AppendGetData(nil, limit.Root+"/"+name, asSuper()); code == jute.OK {
			texts[place] = string(jute.NewDecoder(data).Buffer())
		}
	}
	return texts
}

// parseBound parses the limits of a place; if they can't be parsed, none apply.
func (r *Replica) parseBound(place limit.Place, text string, base limit.Set) limit.Set {
	set, err := limit.Parse(place.Scope, text, base)
	if err != nil {
		r.log.Warn("a limit can't be read and is not in force", "znode", place.Znode(), "err", err)
		return base
	}
	return set
}

// noteBounds looks whether an event changes limits; mu is held alone.
func (r *Replica) noteBounds(ev *tree.Event) {
	if len(ev.Path) > len(limit.Root) && strings.HasPrefix(ev.Path, limit.Root+"/") {
		r.boundsChanged = true
	}
}

// noteSizes notes what bounds.concerns asks for after each Apply; mu is held alone.
func (r *Replica) noteSizes() {
	if r.boundsChanged {
		r.readBounds()
	}
	r.znodes.Store(int64(r.tree.NodeCount()))
	r.ephemerals.Store(int64(r.tree.EphemeralsCount()))
}
