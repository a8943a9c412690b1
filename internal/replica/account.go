package replica

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// The memory account adds up what each consumer of memory uses (memory.Use), once a second, and
// more often near the ceiling (Options.MemoryLimit). Requests that would make memory use grow are
// refused in a fixed order (memory.Step) with jute.ErrThrottledOp, which means "not executed at
// all"; the costliest newcomers are refused first.
//
// Reads, deletes, heartbeats, the end of sessions, and the reconnection of known sessions are never refused. But a
// client that reconnects and sets many watches again is disconnected (watchBytesMax). A server refuses requests of its
// own clients before they reach the log, because all servers apply the log alike.

// clientBytes is what a connection uses in addition to its buffers: a goroutine, and its records
// here and in the network poller.
const clientBytes = 12 << 10

// memoryAccount is the last account and its consequences.
type memoryAccount struct {
	tight     atomic.Int32 // the memory.Step in force, 0 for none
	costliest atomic.Pointer[string]
	use       atomic.Pointer[memory.Use]
	refused   atomic.Int64

	limit   atomic.Int64 // memory.limit as of the last account; 0 for none
	rest    atomic.Int64 // the last account's total without watches
	watches atomic.Int64 // what watches use now
}

// used returns the memory in use now, as far as known.
func (m *memoryAccount) used() int64 { return m.rest.Load() + m.watches.Load() }

// The shorter memory is, the fewer watches a reconnecting client may set again: first a 64th of memory.limit, then some
// thousand, then a hundred. So clients with many watches are disconnected first.
const (
	watchBytesShare = 64
	watchBytesFew   = 128 << 10
	watchBytesLeast = 16 << 10
)

// watchBytesMax returns how much memory the watches of a client that sets them again now may use.
func (m *memoryAccount) watchBytesMax() int64 {
	limit := m.limit.Load()
	switch memory.StepAt(m.used(), limit) {
	case memory.RefuseNone:
		return math.MaxInt64
	case memory.RefuseCostliest:
		return max(limit/watchBytesShare, watchBytesFew)
	case memory.RefuseGrowth:
		return watchBytesFew
	}
	return watchBytesLeast
}

// The uses of memory for which a connection may be closed while memory is short.
const (
	forWatches = "watches"
	forReplies = "replies"
	forFrames  = "frames"
)

var memoryUses = [...]string{forWatches, forReplies, forFrames}

// closeForMemory closes a connection at once, while memory is short, because of the memory that it uses for what. c.mu
// is held.
func (o *outside) closeForMemory(c *Client, what string, bytes int64) {
	o.meters.closedForMemory[what].Inc()
	o.clientLog.Warn("a connection is closed because memory is short", "client", c.remote,
		"session", SessionText(c.session), "for", what, "bytes", bytes)
	c.cut("memory is short (memory.limit), and it uses much for " + what)
}

// AccountMemory adds up the account, puts the step in force that the limit calls for, and returns
// both. peers is the memory that the connections to peers use, and lines that of audit lines.
func (r *Replica) AccountMemory(peers, lines, limit int64) (memory.Use, memory.Step) {
	u := r.memoryUse()
	u.Peers, u.Records = peers, u.Records+lines
	m := &r.memory
	r.unread.limit.Store(limit)
	m.limit.Store(max(limit, 0))
	r.rooms.bound(limit)
	r.unanswered.bound(limit)
	r.closeSlow(r.now())
	r.proposals.Forget(r.now())
	r.unanswered.wake()
	m.watches.Store(u.Watches)
	m.rest.Store(u.Total() - u.Watches)
	r.relieve()
	step := memory.Next(memory.Step(m.tight.Load()), &u, limit)
	m.use.Store(&u)
	m.costliest.Store(&u.Costliest)
	m.tight.Store(int32(step))
	if step >= memory.RefuseCostliest && !u.Full && limit > 0 {
		r.closeCostliest(forReplies, limit, (*Client).outputBytes)
		r.closeCostliest(forFrames, limit, (*Client).frameBytes)
	}
	return u, step
}

// asideMax returns how many bytes snapshots under way may keep of what has changed before a set counts as growth.
func (m *memoryAccount) asideMax() int64 { return cmp.Or(m.limit.Load(), math.MaxInt64) / 16 }

// last returns the account as it was last added up.
func (m *memoryAccount) last() (u memory.Use) {
	if last := m.use.Load(); last != nil {
		u = *last
	}
	return u
}

// memoryUse adds up the memory that this replica uses.
func (r *Replica) memoryUse() memory.Use {
	r.mu.RLock()
	t := r.tree.Memory()
	sessions := t.Sessions + r.sessionMemory()
	r.mu.RUnlock()
	u := memory.Use{Tree: t.Nodes, Sessions: sessions, Identities: t.Identities, Full: t.Full}
	hosts := map[string]int64{}
	r.watches.mu.Lock()
	u.Watches = r.watches.table.Memory()
	r.watches.mu.Unlock()
	now := r.now()
	for _, c := range r.Clients() {
		c.closeLate(now)
		addClient(&u, c, hosts)
		r.watches.mu.Lock()
		hosts[c.address.ID] += r.watches.table.MemoryOf(c.id)
		r.watches.mu.Unlock()
	}
	most := int64(0)
	for host, n := range hosts { // any order: the smaller name wins a tie
		if n > most || n == most && host < u.Costliest {
			most, u.Costliest = n, host
		}
	}
	u.Unanswered += r.proposals.Memory()
	u.Output += r.large.Rest()
	u.Records = r.logins.throttle.Memory() + r.meters.readsIn.Memory() + r.meters.writesIn.Memory()
	return u
}

// sessionMemory returns the memory that sessions use outside the tree: the records of their connections, their owners
// and their expiry, and the local sessions that have not entered. mu is held at least for reading.
func (r *Replica) sessionMemory() int64 {
	const localBytes = int64(unsafe.Sizeof(localSession{})) + indexEntryBytes + jute.PasswdSize
	own := &r.locals
	return r.limiter.addresses.memory() + r.limiter.identified.memory() +
		int64(len(r.hearing.attached))*indexEntryBytes + int64(len(r.counts.owners))*sessionOwnersBytes +
		int64(len(own.sessions))*localBytes + r.expiry.Memory() + own.expiry.Memory()
}

// indexEntryBytes is roughly what an entry of a Go map of pointers uses.
const indexEntryBytes = 40

// closeCostliest closes the connections that use most memory for what, if all connections together use more than an
// unreadShare of limit for it. It stops when a quarter of that share is free.
func (r *Replica) closeCostliest(what string, limit int64, of func(*Client) int64) {
	most, used := limit/unreadShare, int64(0)
	type share struct {
		c     *Client
		bytes int64
	}
	var shares []share
	for _, c := range r.Clients() {
		if n := of(c); n > 0 {
			shares = append(shares, share{c, n})
			used += n
		}
	}
	if used <= most {
		return
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.c.id, b.c.id))
	})
	for _, s := range shares {
		if used <= most/100*unreadKeepPercent {
			return
		}
		used -= s.bytes
		s.c.mu.Lock()
		r.closeForMemory(s.c, what, s.bytes)
		s.c.mu.Unlock()
	}
}

// outputBytes returns the memory that the client's unread output uses.
func (c *Client) outputBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.closed || len(c.out.frames) == 0 && c.out.taken == 0 {
		return 0
	}
	return int64(cap(c.out.frames) + c.out.taken)
}

// frameBytes returns the memory that the client's unfinished frame uses.
func (c *Client) frameBytes() int64 {
	if c.frame.by.Load() == 0 || c.Ending() != "" {
		return 0
	}
	return c.input.size.Load()
}

// addClient adds one connection's memory to u, and to its host's sum in hosts.
func addClient(u *memory.Use, c *Client, hosts map[string]int64) {
	c.mu.Lock()
	output := int64(cap(c.out.frames) + cap(c.out.spare) + c.out.taken)
	if c.steps.read != nil {
		output += int64(cap(c.steps.read.scan.Body))
	}
	unanswered := int64(c.unanswered.bytes) + int64(cap(c.unanswered.items))*int64(unsafe.Sizeof(request{}))
	c.mu.Unlock()
	unanswered += c.reader.recordsKept.Load()
	input := c.input.size.Load() + clientBytes
	identities := int64(0)
	for _, id := range c.identities() {
		identities += int64(len(id.Scheme)+len(id.ID)) + int64(unsafe.Sizeof(id))
	}
	for _, g := range c.Grants() { // their ids are mostly those above
		identities += int64(len(g.By.Scheme)+len(g.By.ID)) + int64(unsafe.Sizeof(g))
	}
	u.Input += input
	u.Output += output
	u.Unanswered += unanswered
	u.Identities += identities
	hosts[c.address.ID] += input + output + unanswered + identities
}

// refuses returns why there is no memory for a new session of c, or "" if there is.
func (m *memoryAccount) refuses(c *Client, req *jute.ConnectRequest) string {
	step := memory.Step(m.tight.Load())
	if step == memory.RefuseNone || req.SessionID != 0 {
		return ""
	}
	costliest := m.costliest.Load()
	switch {
	case step >= memory.RefuseSessions:
		m.refused.Add(1)
		return "memory is used up to its limit (memory.limit): no new sessions"
	case costliest != nil && *costliest == c.address.ID:
		m.refused.Add(1)
		return fmt.Sprintf("memory is short (memory.limit), and the connections of %s take most of what clients take: no new sessions of it",
			c.address.ID)
	}
	return ""
}

// grows reports whether a request would make the tree larger (tree.Tree.Grows, which explains aside) or set a watch. A
// request that can't be decoded does neither.
func (s *state) grows(code jute.Op, body []byte, aside int64) bool {
	switch {
	case code == jute.OpAddWatch:
		return true
	case code.MayWatch():
		_, wanted, ok := pathWatch(body)
		return ok && wanted
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Grows(code, body, aside)
}

// Compact makes the tree release memory in one short step, and reports whether there is more to
// do.
func (s *state) Compact() (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.Compact()
}
