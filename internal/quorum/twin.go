package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Two servers that run under one id, on copies of one data directory, would vote
// twice and acknowledge what one of them hasn't. So a server asks now and then who
// answers at the address that the configuration gives it. If that is another one,
// it is this one that is in the wrong place, and it stops. The question carries a
// number that only the server itself knows, in place of the cluster.

// ErrTwin says that another server runs under this one's id, at its address.
var ErrTwin = errors.New("another server runs under the same id")

// twinPause is the time between two questions.
const twinPause = 5 * time.Second

// newNonce returns a number that nobody else has.
func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

// isSelf reports whether a hello is this server's question to itself.
func (t *transport) isSelf(h hello) bool {
	return h.kind == connPing && h.from == t.id && h.to == t.id && h.cluster == t.nonce
}

// watchTwin asks until the transport is closed or found was called.
func (t *transport) watchTwin(addrs []string, found func(error)) {
	for t.ctx.Err() == nil {
		for _, addr := range addrs {
			c, err := t.greet(addr, hello{connPing, t.nonce, t.id, t.id})
			if err == nil {
				c.Close()
				continue
			}
			var refused *refusedError
			if errors.As(err, &refused) && strings.Contains(refused.reason, sameID) {
				found(fmt.Errorf("%w: server %d answers at %s, and it is not this one: two servers have the same myid, or this one has a copy of the other's data directory; give this one an id of its own and an empty data directory", ErrTwin, t.id, addr))
				return
			}
		}
		select {
		case <-time.After(twinPause):
		case <-t.ctx.Done():
		}
	}
}

// sameID is the part of a refusal by which a server knows that another one has its
// id. Its words are part of the protocol.
const sameID = "two servers have the same myid"
