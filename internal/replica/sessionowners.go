package replica

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The sessions of an address, and of an identity, are limited on the server where they begin. A session counts from its
// begin to its end, also while it has no connection, and wherever it is resumed. So a client can't accumulate sessions
// by dropping their connections.
//
// Every server counts. The entry that attaches a session has the identities of its connection (D10), among them the
// address, so a server knows a session's owners if it has applied the session's begin, or a later resumption, since it
// started. If the session came from a snapshot, the server learns them when the session is resumed. An identity that a
// connection proves after its session has begun is in no such entry: only the server that the client is connected to
// counts the session for it.
//
// The first known address and identity of a session count until its end. A resumed session is never refused.

// sessionOwners are the owners that a session counts for; each may be nil.
type sessionOwners struct{ address, identity *owner }

// sessionCounts counts the sessions of each owner; Replica.mu guards it.
type sessionCounts struct {
	*outside
	*state
	limiter *limiter
	hearing *hearing
	locals  *locals

	owners map[int64]sessionOwners // by session
}

// sessionOwnersBytes is roughly what one entry of sessionCounts.owners uses.
const sessionOwnersBytes = int64(unsafe.Sizeof(sessionOwners{})) + indexEntryBytes

// add adds n to the owners' sessions.
func (s *sessionOwners) add(n int64) {
	for _, o := range [...]*owner{s.address, s.identity} {
		if o != nil {
			o.sessions.Add(n)
		}
	}
}

// sessionOwners returns the owners that c counts toward.
func (l *clientLimits) sessionOwners() sessionOwners {
	return sessionOwners{address: l.address.Load(), identity: l.identity.Load()}
}

// mayBegin reports whether the owners of c may have one more session, and logs it if not. An administrator always may,
// if identified by a certificate from the start. mu is held for writing.
func (l *limiter) mayBegin(c *Client) bool {
	b := l.inForce.Load()
	super := slices.ContainsFunc(c.identities(), func(id jute.ID) bool { return id.Scheme == "super" })
	if b == nil || c.mayRestore || super {
		return true
	}
	return !slices.ContainsFunc(limit.Holders[:], func(s limit.Scope) bool { return !l.mayHaveSession(c, b, s) })
}

// mayHaveSession reports whether the owner of c in a scope may have one more session, and logs it if not.
func (l *limiter) mayHaveSession(c *Client, b *limit.InForce, s limit.Scope) bool {
	most, o := b.Sets[s][limit.Sessions], c.limits.ownerIn(s)
	if most == 0 || o == nil || o == &l.ownersIn(s).rest || o.sessions.Load() < most {
		return true
	}
	l.exceeded(c, s, o.name, limit.Sessions, l.now())
	return false
}

// reserve counts the session that c has asked for until it begins or c gives up; mu is held for writing.
func (s *sessionCounts) reserve(c *Client) {
	c.arrival.reserved = c.limits.sessionOwners()
	c.arrival.reserved.add(1)
}

// release undoes reserve; mu is held for writing.
func (s *sessionCounts) release(c *Client) {
	c.arrival.reserved.add(-1)
	c.arrival.reserved = sessionOwners{}
}

// count counts a session that begins on c or is resumed there, if it doesn't count yet; mu is held for writing.
func (s *sessionCounts) count(session int64, c *Client) {
	if _, counts := s.owners[session]; !counts {
		by := c.limits.sessionOwners()
		by.add(1)
		s.owners[session] = by
	}
}

// countAttached is count for a session that an entry has attached to a connection. The connection may have ended, or be
// another server's. mu is held for writing.
func (s *sessionCounts) countAttached(res *tree.Result) {
	if c := s.clients[res.Cnx]; c != nil {
		s.count(res.Session, c)
		return
	}
	if _, counts := s.owners[res.Session]; counts {
		return
	}
	var by sessionOwners
	ids, now := res.Request.Identities, s.now()
	if at := slices.IndexFunc(ids, func(id jute.ID) bool { return id.Scheme == "ip" }); at >= 0 {
		by.address = s.limiter.addresses.hold(strings.Clone(auth.Neighbourhood(ids[at].ID)), now)
	}
	if id, ok := countedIdentity(ids); ok {
		by.identity = s.limiter.identified.hold(ownerName(id), now)
	}
	s.owners[res.Session] = by
}

// uncount records that a session is over; mu is held for writing.
func (s *sessionCounts) uncount(session int64) {
	by := s.owners[session] // none if it doesn't count
	by.add(-1)
	delete(s.owners, session)
}

// uncountGone uncounts the sessions that are over in a state that has replaced this server's; mu is held for writing.
func (s *sessionCounts) uncountGone() {
	for id := range s.owners { // any order: each by itself
		if _, known := s.tree.Sessions().Get(id); !known && s.locals.sessions[id] == nil {
			s.uncount(id)
		}
	}
}

// belongs is limiter.belongs for a client that may have a session. The session also counts for an identity that its
// connection is the first to prove; if there are too many, belongs returns the reason to close the connection.
func (s *sessionCounts) belongs(c *Client) (refused string) {
	had := c.limits.identity.Load()
	if !s.limiter.belongs(c) {
		return tooManyOfIdentity
	}
	o := c.limits.identity.Load()
	if o == had {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	by, counts := s.owners[c.session]
	if !counts || by.identity != nil || s.hearing.attached[c.session] != c {
		return ""
	}
	if b := s.limiter.inForce.Load(); b != nil && !s.limiter.mayHaveSession(c, b, limit.Identity) {
		return tooManySessionsOfIdentity
	}
	by.identity = o
	o.sessions.Add(1)
	s.owners[c.session] = by
	return ""
}

// Reasons to refuse clients.
const (
	tooManySessions           = "its address or its identity has as many sessions as it may (limits.address, limits.identity)"
	tooManySessionsOfIdentity = "its identity has as many sessions as it may (limits.identity)"
)
