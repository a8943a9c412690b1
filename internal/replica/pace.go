package replica

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/turns"
	"github.com/zooid-project/zooid/jute"
)

// The rates of connections, addresses and identities. The requests of a batch are counted after
// they are taken. An owner that exceeds its rate then has to wait: only heartbeats and closes are
// taken from its connections until the excess is paid off. A connection waits at most pacedMax
// before one more request is taken, so that it never looks dead to either end.

// pacedMax is the longest wait (ns), unless a quarter of the session's timeout is less.
const pacedMax = int64(1e9)

// ErrPaced says that a connection's input isn't taken now, because a limit of requests or bytes per
// second was exceeded. The caller passes the input in again after Client.Pause.
var ErrPaced = errors.New("the connection's requests come faster than a limit allows")

// An owner is an address or an identity that has connections, or recently had some.
type owner struct {
	name      string
	used      limit.Rates
	connects  limit.Rate
	clients   map[*Client]struct{} // connections that count toward it; guarded by owners.mu
	sessions  atomic.Int64         // sessions that count for it, and those asked for; see sessionowners.go
	watched   atomic.Int64         // no less than the watches of its connections; see held.go
	watchRate limit.Rate           // its connections' use of watchTime
	greedy    atomic.Bool          // it has more than its share unanswered; see survey
	turns     turns.Queue          // of an address: also for the owners that it answers for (see payer)
}

// owners are all owners of one scope.
type owners struct {
	mu     ownersLock
	byName map[string]*owner
	bytes  int64 // that byName uses, roughly
	sweep  int   // number of owners beyond which idle ones are forgotten
	swept  int64 // now (ns) of the last such attempt, if it made no room; otherwise 0
	rest   owner // shared by all names without room for their own
}

const (
	// ownersRestingMax bounds the owners without connections that are remembered because of their
	// recent use. Beyond it, all further owners share one set of rates.
	ownersRestingMax = 10_000
	// ownersSweepPause is the least time (ns) between two attempts to make room after one that failed.
	ownersSweepPause = int64(1e9)
	// ownersSweepMin is the least number of owners for which making room is worth an attempt.
	ownersSweepMin = 1000
)

// of returns the owner of a name. joins, if not nil, is called with mu held, so that the owner isn't forgotten before
// something counts toward it.
func (w *owners) of(name string, now int64, joins func(*owner)) *owner {
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
		w.bytes += o.memory()
	default:
		o = &w.rest
	}
	if joins != nil {
		joins(o)
	}
	return o
}

// memory returns roughly the memory that the owner uses.
func (o *owner) memory() int64 {
	return int64(unsafe.Sizeof(*o)) + int64(len(o.name)) + indexEntryBytes
}

// memory returns roughly the memory that all owners use, including owners of sessions without a connection.
func (w *owners) memory() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// hold is of for one more session that counts for the owner.
func (w *owners) hold(name string, now int64) *owner {
	return w.of(name, now, func(o *owner) { o.sessions.Add(1) })
}

// join is of for a connection that counts toward the owner from now on.
func (w *owners) join(name string, now int64, c *Client) *owner {
	return w.of(name, now, func(o *owner) {
		if o.clients == nil {
			o.clients = map[*Client]struct{}{}
		}
		o.clients[c] = struct{}{}
	})
}

// room makes room for one more owner, if possible; mu is held.
func (w *owners) room(now int64) bool {
	if len(w.byName) < w.sweep {
		return true
	}
	if w.swept != 0 && now-w.swept < ownersSweepPause {
		return false
	}
	resting := 0
	for name, o := range w.byName { // any order: each is independent
		if len(o.clients) > 0 || o.sessions.Load() > 0 {
			continue
		}
		if o.used.Rested(now) && o.connects.Rested(now) {
			delete(w.byName, name)
			w.bytes -= o.memory()
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

// leave removes a connection from its owner, which may be nil.
func (w *owners) leave(o *owner, c *Client) {
	if o != nil {
		w.mu.Lock()
		delete(o.clients, c)
		w.mu.Unlock()
	}
}

// MayConnect reports whether an address may open one more connection now, and counts it if so.
func (l *limiter) MayConnect(address jute.ID) bool {
	b := l.inForce.Load()
	if b == nil || b.Sets[limit.Address][limit.Connects] == 0 {
		return true
	}
	now := l.now()
	o := l.addresses.of(auth.Neighbourhood(address.ID), now, nil)
	if o.connects.Owes(now) > 0 {
		l.meters.exceeded[limit.Address].Inc()
		return false
	}
	o.connects.Use(now, 1, b.Sets[limit.Address][limit.Connects])
	return true
}

// belongs determines the address and the identity that c counts toward: of several identities, the
// first one proved. It reports false if there are too many connections of that identity.
func (l *limiter) belongs(c *Client) bool {
	if c.limits.address.Load() == nil {
		c.limits.address.Store(l.addresses.join(auth.Neighbourhood(c.address.ID), l.now(), c))
	}
	id, ok := countedIdentity(c.identities())
	if c.limits.identity.Load() != nil || !ok {
		return true
	}
	o := l.identified.join(ownerName(id), l.now(), c)
	c.limits.claimed.Store(!l.auth.Vouched(id)) // before its identity counts
	c.limits.identity.Store(o)
	o.watched.Store(math.MaxInt64 / 2) // it may bring watches that must be counted
	b := l.inForce.Load()
	if b == nil || b.Sets[limit.Identity][limit.Connections] == 0 || o == &l.identified.rest {
		return true
	}
	l.identified.mu.Lock()
	n := len(o.clients)
	l.identified.mu.Unlock()
	if int64(n) <= b.Sets[limit.Identity][limit.Connections] {
		return true
	}
	l.exceeded(c, limit.Identity, o.name, limit.Connections, l.now())
	return false
}

// countedIdentity returns the identity that a client with these identities counts for: the first one proved. An
// administrator's identity doesn't count, since an administrator has to get in when there are too many others.
func countedIdentity(ids []jute.ID) (id jute.ID, ok bool) {
	at := slices.IndexFunc(ids, func(id jute.ID) bool { return id.Scheme != "ip" && id.Scheme != "world" })
	if at < 0 || ids[at].Scheme == "super" {
		return jute.ID{}, false
	}
	return ids[at], true
}

// ownerName returns the name of the owner that stands for an identity.
func ownerName(id jute.ID) string { return id.Scheme + ":" + id.ID }

// tooManyOfIdentity is why a connection ends if its identity has too many.
const tooManyOfIdentity = "there are as many connections of its identity as one may have (limits.identity)"

// spendAfter is the longest time (ns) until a connection's use counts for its address and its identity.
const spendAfter = int64(5e6)

// use counts requests and bytes taken from the batch's connection.
func (t *readBatch) use(requests, bytes int) {
	b, c := t.limits, t.c
	c.limits.used.Use(t.now, int64(requests), int64(bytes), &b.Sets[limit.Connection])
	c.reader.unspentRequests += int64(requests)
	c.reader.unspentBytes += int64(bytes)
	if c.reader.unspentRequests >= b.SpendRequests || c.reader.unspentBytes >= b.SpendBytes ||
		t.now-c.reader.spentAt >= spendAfter {
		c.spend(b, t.now)
	}
}

// spend adds c's use to its address's and identity's. Only c's reader may call it.
func (c *Client) spend(b *limit.InForce, now int64) {
	for _, s := range limit.Holders {
		if o := c.limits.ownerIn(s); o != nil {
			o.used.Use(now, c.reader.unspentRequests, c.reader.unspentBytes, &b.Sets[s])
		}
	}
	c.reader.unspentRequests, c.reader.unspentBytes, c.reader.spentAt = 0, 0, now
}

// paced reports whether no request of in may be taken until c.Pause has passed (wait), or only
// one (one).
func (t *readBatch) paced(in []byte) (wait, one bool) {
	c := t.c
	owes, kind := c.limits.used.Owes(t.now)
	scope, name := limit.Connection, c.remote
	for s, o := range [...]*owner{limit.Address: c.limits.address.Load(), limit.Identity: c.limits.identity.Load()} {
		if o == nil {
			continue
		}
		if n, k := o.used.Owes(t.now); n > owes {
			owes, kind, scope, name = n, k, limit.Scope(s), o.name
		}
	}
	if owes <= 0 || c.mayRestore {
		c.reader.pacedSince = 0
		return false, false
	}
	longest := min(pacedMax, int64(c.timeout)*1e6/4)
	c.reader.pause = min(owes, longest)
	if Pressing(in) {
		return false, true
	}
	if c.reader.pacedSince == 0 {
		c.reader.pacedSince = t.now
		t.r.limiter.exceeded(c, scope, name, kind, t.now)
	}
	waited := t.now - c.reader.pacedSince
	if waited >= longest {
		c.reader.pacedSince = t.now
		return false, true
	}
	c.reader.pause = min(owes, longest-waited)
	return true, false
}

// Pressing reports whether the first request in in is one that never has to wait.
func Pressing(in []byte) bool {
	if len(in) < 4+jute.RequestHeaderSize {
		return false
	}
	op := jute.Op(int32(binary.BigEndian.Uint32(in[8:])))
	return op == jute.OpPing || op == jute.OpCloseSession
}

// exceededPause is the least time (ns) between two log lines about one connection.
const exceededPause = int64(10e9)

// exceeded counts that a client exceeded a limit, and logs it.
func (l *limiter) exceeded(c *Client, scope limit.Scope, of string, kind limit.Kind, now int64) {
	l.meters.exceeded[scope].Inc()
	if last := c.limits.toldLimit.Load(); last != 0 && now-last < exceededPause ||
		!c.limits.toldLimit.CompareAndSwap(last, max(now, 1)) {
		return
	}
	who := ""
	if ids := c.identities(); len(ids) > 0 {
		who = auth.Shown(ids[len(ids)-1])
	}
	if scope == limit.Identity { // an owner's name may contain the hash of a password
		scheme, id, _ := strings.Cut(of, ":")
		of = auth.Shown(jute.ID{Scheme: scheme, ID: id})
	}
	l.clientLog.Warn("a client exceeds a limit", "client", c.remote, "session", SessionText(c.session), "identity", who,
		"scope", scope.String(), "of", of, "limit", kind.String())
}
