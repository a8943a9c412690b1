package peer

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// Two servers with the same id, on copies of one data directory, would vote twice and acknowledge
// entries that one of them lacks. So a server regularly connects to the address that the
// configuration gives it, and checks which process answers. If another process does, this server
// runs in the wrong place, and stops. Instead of the cluster's id, the hello carries a number that
// only this process knows.

// ErrDuplicateID says that another server with this server's id answers at its address.
var ErrDuplicateID = errors.New("another server runs under the same id")

// duplicateIDPause is the time between two checks.
const duplicateIDPause = 5 * time.Second

// newNonce returns a random number that no other process and no other run of a server has.
func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

// isSelf reports whether a hello was sent by this process to itself.
func (t *transport) isSelf(h hello) bool {
	return h.kind == connPing && h.from == t.id && h.to == t.id && h.cluster == t.nonce
}

// watchDuplicateID checks the addresses that the configuration gives this server, and those
// in the ensemble's membership, until the transport is closed or found was called. The two
// differ if the data directory is a copy and another address is configured for it.
func (t *transport) watchDuplicateID(found func(error)) {
	for t.ctx.Err() == nil {
		for _, addr := range t.ownAddrs() {
			c, err := t.greet(t.ctx, addr, hello{connPing, t.nonce, t.id, t.id}, false)
			if err == nil {
				c.Close()
				continue
			}
			if refused, ok := errors.AsType[*refusedError](err); ok && strings.Contains(refused.reason, quorum.SameID) {
				found(fmt.Errorf("%w: server %d answers at %s, and it is not this one: two servers have the same myid, or this one has a copy of the other's data directory; give this one an id of its own and an empty data directory",
					ErrDuplicateID, t.id, addr))
				return
			}
		}
		select {
		case <-time.After(duplicateIDPause):
		case <-t.ctx.Done():
		}
	}
}

// ownAddrs returns the addresses at which this server should answer.
func (t *transport) ownAddrs() (addrs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range slices.Concat(t.configured, t.members) {
		for _, addr := range m.Addrs {
			if m.ID == t.id && !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs
}

// duplicateIDOf returns the reason to refuse a if this server is connected to another process
// that runs under the same id at the peer's address, else "".
func (t *transport) duplicateIDOf(a arrival) string {
	r := t.remote(a.hello.from)
	if r == nil || len(a.public) == 0 || a.hello.kind != connMessages && a.hello.kind != connSnapshot {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up || len(r.public) == 0 || bytes.Equal(r.public, a.public) {
		return ""
	}
	return fmt.Sprintf("server %d runs at %s already, and you are another process: %s, or your data directory is a copy of its; give yours an id of its own and an empty data directory",
		r.id, strings.Join(r.addrs, ", "), quorum.SameID)
}

// sameIDFor is how long a server remembers that two servers have the same id. The refused one asks again within
// seconds, on a busy machine later.
const sameIDFor = 30 * time.Second

// sameID is what a connection has shown about two servers with the same id.
type sameID struct {
	why    string
	at     time.Time
	public []byte // key of the process that this server has refused, nil if this server was refused
}

// noteSameID records that this server has refused another one, because a third one has its id.
func (t *transport) noteSameID(a arrival, reason string) {
	r := t.remote(a.hello.from)
	if r == nil || !strings.Contains(reason, quorum.SameID) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	alive := cmp.Or(r.addr, strings.Join(r.addrs, ", "))
	r.sameID = sameID{fmt.Sprintf("two servers have the id %d: the ensemble has the one at %s, and refuses one on %s",
		r.id, alive, hostOf(a.Conn)), time.Now(), a.public}
}

// noteEntered forgets that an arrival's process was refused: the server was restarted in its own place before the
// connection to its former process had ended.
func (t *transport) noteEntered(a arrival) {
	if r := t.remote(a.hello.from); r != nil {
		r.mu.Lock()
		if bytes.Equal(r.sameID.public, a.public) {
			r.sameID = sameID{}
		}
		r.mu.Unlock()
	}
}

// noteRefused records whether r has refused this server because another one has its id; err is nil if r accepted it.
func (r *remote) noteRefused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refused *refusedError
	switch {
	case errors.As(err, &refused) && strings.Contains(refused.reason, quorum.SameID):
		r.sameID = sameID{fmt.Sprintf("server %d refuses this server: %s", r.id, refused.reason), time.Now(), nil}
	case err == nil && r.sameID.public == nil:
		r.sameID = sameID{}
	}
}

// SameID returns what this server knows about servers with the same id: those that it has refused for that, and those
// that have refused it.
func (p *Peer) SameID() []string {
	all := told(p.transport, func(r *remote) string {
		if time.Since(r.sameID.at) < sameIDFor {
			return r.sameID.why
		}
		return ""
	})
	var list []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[id])
	}
	return list
}
