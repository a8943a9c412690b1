package server

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// The memory account: what each owner of memory takes (memory.Use), added up once a
// second, and oftener near the ceiling (Options.MemoryLimit). What would grow is
// refused in a fixed order (memory.Step), with jute.ErrThrottledOp, "not executed at
// all", the costliest newcomers first.
//
// What is there goes on: reads, deletes, heartbeats, the end of sessions, and known
// sessions that reconnect, with their watches. A server refuses at the door, what
// its own clients ask for: what is in the log is applied by all servers alike.

const (
	// memoryInterval is the time between two looks at the account; beyond half of the
	// ceiling, or after one in which a memoryGrowthShare of it was taken, it is
	// memoryIntervalTight.
	memoryInterval      = time.Second
	memoryGrowthShare   = 16
	memoryIntervalTight = 100 * time.Millisecond
	// compactSteps, with a compactPause behind each, are done between two looks at the
	// account: a tenth of the time at the most.
	compactSteps = 50
	compactPause = 2 * time.Millisecond
	// memoryLogPause is the least time between two lines of the log about it.
	memoryLogPause = 10 * time.Second
	// clientBytes is what a connection takes beside its buffers: a goroutine, its
	// records here and in the network poller.
	clientBytes = 12 << 10
)

// memoryAccount is what the replica knows of the account.
type memoryAccount struct {
	// tight is the step that is in force, 0 for none.
	tight     atomic.Int32 // a memory.Step
	costliest atomic.Pointer[string]
	use       atomic.Pointer[memory.Use]
	refused   atomic.Int64
}

// watchMemory looks at the account until the server stops.
func (s *Server) watchMemory() {
	defer s.wg.Done()
	var told time.Time
	var total int64
	pause := memoryInterval
	for s.pause(pause) {
		more := s.compact()
		before := s.replica.memory.tight.Load()
		u := s.lookAtMemory()
		if now := s.replica.memory.tight.Load(); now != before && time.Since(told) >= memoryLogPause {
			told = time.Now()
			s.reportMemory(memory.Step(now), &u)
		}
		grew := u.Total() - total
		total = u.Total()
		if pause = memoryInterval; more || total > s.opt.MemoryLimit/2 || grew > s.opt.MemoryLimit/memoryGrowthShare {
			pause = memoryIntervalTight
		}
	}
}

// compact has the tree give memory back, in steps that others get their turn between, and
// reports whether there is more to do.
func (s *Server) compact() (more bool) {
	r := s.replica
	for range compactSteps {
		r.mu.Lock()
		more = r.tree.Compact()
		r.mu.Unlock()
		if !more || !s.pause(compactPause) {
			break
		}
	}
	return more
}

// lookAtMemory adds the account up and takes the step that follows.
func (s *Server) lookAtMemory() memory.Use {
	u := s.replica.memoryUse()
	u.Peers = s.peer.Buffered()
	m := &s.replica.memory
	m.use.Store(&u)
	m.costliest.Store(&u.Costliest)
	m.tight.Store(int32(memory.Next(memory.Step(m.tight.Load()), &u, s.opt.MemoryLimit)))
	return u
}

func (s *Server) reportMemory(step memory.Step, u *memory.Use) {
	use := []any{
		"bytes", u.Total(), "limit", s.opt.MemoryLimit, "tree", u.Tree, "sessions", u.Sessions, "watches", u.Watches, "identities", u.Identities,
		"input", u.Input, "output", u.Output, "unanswered", u.Unanswered, "peers", u.Peers,
	}
	switch step {
	case memory.RefuseNone:
		s.log.Info("there is memory again: nothing is refused for lack of it", use...)
	case memory.RefuseCostliest:
		s.log.Warn("memory gets short: new sessions of the client address that takes most are refused; delete znodes, close clients, or raise memory.limit", append(use, "address", u.Costliest)...)
	case memory.RefuseGrowth:
		s.log.Error("memory is short: writes that make the tree larger and new watches are refused; delete znodes, close clients, or raise memory.limit", use...)
	default:
		s.log.Error("memory is used up to its limit: new sessions, writes that make the tree larger and new watches are refused; delete znodes, close clients, or raise memory.limit", use...)
	}
}

// memoryUse adds up what this replica takes.
func (r *replica) memoryUse() memory.Use {
	r.mu.RLock()
	t := r.tree.Memory()
	sessions := len(r.sessions)
	clients := make([]*client, 0, len(r.clients))
	for _, c := range r.clients { // any order: only sums and the largest of sums come of it
		clients = append(clients, c)
	}
	r.mu.RUnlock()
	u := memory.Use{Tree: t.Nodes, Sessions: t.Sessions + int64(sessions)*indexEntryBytes, Identities: t.Identities, Full: t.Full}
	hosts := map[string]int64{}
	for _, c := range clients {
		addClient(&u, c, hosts)
	}
	most := int64(0)
	for host, n := range hosts { // any order: the smaller name wins a draw
		if n > most || n == most && host < u.Costliest {
			most, u.Costliest = n, host
		}
	}
	r.watchMu.Lock()
	u.Watches = r.watches.Memory()
	r.watchMu.Unlock()
	u.Unanswered += r.outbox.bytes()
	return u
}

// indexEntryBytes is about what an entry of a Go map of pointers takes.
const indexEntryBytes = 40

// addClient adds one connection.
func addClient(u *memory.Use, c *client, hosts map[string]int64) {
	c.mu.Lock()
	output := int64(cap(c.out) + cap(c.spare) + c.taken)
	if c.long != nil {
		output += int64(cap(c.long.scan.Body))
	}
	unanswered := int64(c.unanswered.bytes) + int64(cap(c.unanswered.items))*int64(unsafe.Sizeof(request{}))
	c.mu.Unlock()
	input := c.input.Load() + clientBytes
	identities := int64(0)
	for _, id := range c.identities() {
		identities += int64(len(id.Scheme)+len(id.ID)) + int64(unsafe.Sizeof(id))
	}
	u.Input += input
	u.Output += output
	u.Unanswered += unanswered
	u.Identities += identities
	hosts[c.address.ID] += input + output + unanswered + identities
}

// bytes is what waits in the outbox.
func (o *outbox) bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := int64(cap(o.cur))
	for _, b := range o.full {
		n += int64(cap(b))
	}
	return n
}

// memoryForSession returns why there is no memory for a new session of c, "" if
// there is.
func (r *replica) memoryForSession(c *client, req *jute.ConnectRequest) string {
	step := memory.Step(r.memory.tight.Load())
	if step == memory.RefuseNone || req.SessionID != 0 {
		return ""
	}
	costliest := r.memory.costliest.Load()
	switch {
	case step >= memory.RefuseSessions:
		r.memory.refused.Add(1)
		return "memory is used up to its limit (memory.limit): no new sessions"
	case costliest != nil && *costliest == c.address.ID:
		r.memory.refused.Add(1)
		return fmt.Sprintf("memory is short (memory.limit), and the connections of %s take most of what clients take: no new sessions of it", c.address.ID)
	}
	return ""
}

// refuseGrowth returns op, or an op that refuses the request since it would take
// more memory. The replica is not held.
func (r *replica) refuseGrowth(op *op, body []byte) *op {
	if memory.Step(r.memory.tight.Load()) < memory.RefuseGrowth || !r.grows(op.code, body) {
		return op
	}
	r.memory.refused.Add(1)
	return &opNoRoom
}

// grows reports whether a request makes the tree larger, or leaves a watch. One that
// can't be decoded doesn't.
func (r *replica) grows(code jute.Op, body []byte) bool {
	switch code {
	case jute.OpAddWatch:
		return true
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		_, wanted, ok := pathWatch(body)
		return ok && wanted
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Grows(code, body)
}

// memoryGauge returns how to read one figure of the account.
func (s *Server) memoryGauge(read func(u *memory.Use) int64) func() int64 {
	return func() int64 {
		if u := s.replica.memory.use.Load(); u != nil {
			return read(u)
		}
		return 0
	}
}
