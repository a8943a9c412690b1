package peer

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"
)

// life returns the number of this start with an empty data directory, never 0.
func (t *transport) life() uint32 { return uint32(t.nonce>>32) | 1 }

// life returns the asker's life in a hello of kind connJoin, 0 if the hello has none.
func (h *hello) life() uint32 { return uint32(h.cluster >> 32) }

// isEmpty asks server id, at its own address, whether its data directory is empty and its
// present life is life.
func (t *transport) isEmpty(id uint64, life uint32) bool {
	r := t.remote(id)
	if r == nil {
		return false
	}
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	for _, addr := range addrs {
		c, err := t.greet(t.ctx, addr, hello{connLife, t.cluster, t.id, id}, true)
		if refused := (*refusedError)(nil); life == 0 && errors.As(err, &refused) &&
			strings.Contains(refused.reason, emptyRefusal) {
			return true
		}
		if err != nil {
			continue
		}
		var b [4]byte
		c.SetDeadline(time.Now().Add(dialTimeout))
		_, err = io.ReadFull(c, b[:])
		c.Close()
		if err == nil {
			return binary.BigEndian.Uint32(b[:]) == life
		}
	}
	return false
}
