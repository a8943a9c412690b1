package replica

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/jute"
)

// The rates of connections, addresses and identities. The requests of a batch are counted
// once they are taken. An owner that exceeds its rate then waits: only heartbeats and closes
// are taken from its connections until the excess is paid off. A connection
// waits for at most pacedMax until one more request is taken, so that it never looks dead to
// either end.

// pacedMax is that time (ns), or a quarter of the session's timeout if that is less.
const pacedMax = int64(1e9)

// ErrPaced says that a connection's input isn't taken now, because a limit of requests or
// bytes in a second was exceeded. The caller passes it in again after Client.Pause.
var ErrPaced = errors.New("the connection's requests come faster than a limit allows")

// Pause returns how long to wait after ErrPaced. Only the connection's reader may call it.
func (c *Client) Pause() time.Duration { return time.Duration(c.pause) }

// An owner is an address or an identity that has connections, or had them lately.
type owner struct {
	name     string
	used     rates
	connects limit.Rate
	clients  int         // connections that count for it; guarded by owners.mu
	greedy   atomic.Bool // more is unanswered of it than its part; see survey
}

// owners are all of one scope.
type owners struct {
	mu     sync.Mutex
	byName map[string]*owner
	sweep  int   // how many there may be before those at rest are forgotten
	swept  int64 // when (ns) that was done last and left no room; 0 if it left some
	rest   owner // of all that there is no room for
}

const (
	// ownersRestingMax bounds the owners without a connection that are remembered for what they
	// used lately. When there are more, all others share one set of rates.
	ownersRestingMax = 10_000
	// ownersSweepPause is the least time (ns) between two looks for room where there was none.
	ownersSweepPause = int64(1e9)
	// ownersSweepMin is the least number of owners at which it is worth looking for such.
	ownersSweepMin = 1000
)

// of returns the owner of a name, and counts a connection of it if that is one.
func (w *owners) of(name string, now int64, joins bool) *owner {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.byName[name]
	switch {
	case o != nil:
	case w.byName == nil:
		w.byName, w.sweep = map[string]*owner{}, ownersSweepMin
		fallthrough
	case w.room(now):
		o = &owner{name: name}
		w.byName[name] = o
	default:
		o = &w.rest
	}
	if joins {
		o.clients++
	}
	return o
}

// room makes room for one more owner, if there can be any; mu is held.
func (w *owners) room(now int64) bool {
	if len(w.byName) < w.sweep {
		return true
	}
	if w.swept != 0 && now-w.swept < ownersSweepPause {
		return false
	}
	resting := 0
	for name, o := range w.byName { // any order: each for itself
		if o.clients > 0 {
			continue
		}
		if o.used.requests.Rested(now) && o.used.bytes.Rested(now) && o.connects.Rested(now) {
			delete(w.byName, name)
		} else {
			resting++
		}
	}
	if resting >= ownersRestingMax {
		w.swept = max(now, 1)
		return false
	}
	w.swept, w.sweep = 0, max(ownersSweepMin, len(w.byName)+len(w.byName)/4)
	return true
}

// leave takes a connection of an owner away.
func (w *owners) leave(o *owner) {
	if o != nil {
		w.mu.Lock()
		o.clients--
		w.mu.Unlock()
	}
}

// MayConnect counts a connection that an address begins, and reports whether it may.
func (r *Replica) MayConnect(address jute.ID) bool {
	b := r.bounds.Load()
	if b == nil || b.sets[limit.Address][limit.Connects] == 0 {
		return true
	}
	now := r.now()
	o := r.addresses.of(auth.Neighbourhood(address.ID), now, false)
	if o.connects.Owes(now) > 0 {
		r.meters.exceeded[limit.Address].Inc()
		return false
	}
	o.connects.Use(now, 1, b.sets[limit.Address][limit.Connects])
	return true
}

// belongs finds out for which address and identity c counts. It reports false if there are
// too many connections of that identity. Of several it is the first one proved.
func (r *Replica) belongs(c *Client) bool {
	if c.byAddress == nil {
		c.byAddress = r.addresses.of(auth.Neighbourhood(c.address.ID), r.now(), true)
		c.counts.Store(c.byAddress)
	}
	ids := c.identities()
	at := slices.IndexFunc(ids, func(id jute.ID) bool { return id.Scheme != "ip" && id.Scheme != "world" })
	if c.byIdentity != nil || at < 0 || ids[at].Scheme == "super" {
		return true // an administrator has to get in when others are too many
	}
	o := r.identified.of(ids[at].Scheme+":"+ids[at].ID, r.now(), true)
	c.byIdentity = o
	c.counts.Store(o)
	b := r.bounds.Load()
	if b == nil || b.sets[limit.Identity][limit.Connections] == 0 || o == &r.identified.rest {
		return true
	}
	r.identified.mu.Lock()
	n := o.clients
	r.identified.mu.Unlock()
	if int64(n) <= b.sets[limit.Identity][limit.Connections] {
		return true
	}
	r.exceeded(c, limit.Identity, o.name, limit.Connections, r.now())
	return false
}

// tooManyOfIdentity is why a connection ends that has an identity too many have.
const tooManyOfIdentity = "there are as many connections of its identity as one may have (limits.identity)"

// use counts what was taken of the batch's connection.
func (t *readBatch) use(requests, bytes int) {
	b, c := t.bounds, t.c
	c.used.use(t.now, int64(requests), int64(bytes), &b.sets[limit.Connection])
	if c.byAddress != nil {
		c.byAddress.used.use(t.now, int64(requests), int64(bytes), &b.sets[limit.Address])
	}
	if c.byIdentity != nil {
		c.byIdentity.used.use(t.now, int64(requests), int64(bytes), &b.sets[limit.Identity])
	}
}

// paced reports whether nothing of in may be taken until c.Pause, or one request at the
// most.
func (t *readBatch) paced(in []byte) (wait, one bool) {
	c := t.c
	owes, kind := c.used.owes(t.now)
	scope, name := limit.Connection, c.remote
	for s, o := range [...]*owner{limit.Address: c.byAddress, limit.Identity: c.byIdentity} {
		if o == nil {
			continue
		}
		if n, k := o.used.owes(t.now); n > owes {
			owes, kind, scope, name = n, k, limit.Scope(s), o.name
		}
	}
	if owes <= 0 || c.mayReplace {
		c.pacedSince = 0
		return false, false
	}
	longest := min(pacedMax, int64(c.timeout)*1e6/4)
	c.pause = min(owes, longest)
	if pressing(in) {
		return false, true
	}
	if c.pacedSince == 0 {
		c.pacedSince = t.now
		t.r.exceeded(c, scope, name, kind, t.now)
	}
	waited := t.now - c.pacedSince
	if waited >= longest {
		c.pacedSince = t.now
		return false, true
	}
	c.pause = min(owes, longest-waited)
	return true, false
}

// pressing reports whether the first request of in is one that never waits.
func pressing(in []byte) bool {
	if len(in) < 4+jute.RequestHeaderSize {
		return false
	}
	switch jute.Op(int32(binary.BigEndian.Uint32(in[8:]))) {
	case jute.OpPing, jute.OpCloseSession:
		return true
	}
	return false
}

// exceededPause is the least time (ns) between two lines of the log about one connection.
const exceededPause = int64(10e9)

// exceeded counts that a limit was, and tells of it.
func (r *Replica) exceeded(c *Client, scope limit.Scope, of string, kind limit.Kind, now int64) {
	r.meters.exceeded[scope].Inc()
	if last := c.toldLimit.Load(); last != 0 && now-last < exceededPause || !c.toldLimit.CompareAndSwap(last, max(now, 1)) {
		return
	}
	who := ""
	if ids := c.identities(); len(ids) > 0 {
		who = auth.Shown(ids[len(ids)-1])
	}
	if scope == limit.Identity { // an owner's name has the hash of a password in it
		scheme, id, _ := strings.Cut(of, ":")
		of = auth.Shown(jute.ID{Scheme: scheme, ID: id})
	}
	r.clientLog.Warn("a client exceeds a limit", "client", c.remote, "session", SessionText(c.session), "identity", who,
		"scope", scope.String(), "of", of, "limit", kind.String())
}
