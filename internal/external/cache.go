package external

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/zooid-project/zooid/authprovider"
)

// cacheEntriesMax bounds the cached answers; beyond it the oldest is dropped.
const cacheEntriesMax = 4096

// A cache keeps answers that admit a client. It stores only hashes of the credentials, keyed with a secret of this
// process.
type cache struct {
	last time.Duration // how long an answer is valid

	mu     sync.Mutex
	secret []byte
	kept   map[cacheKey]kept
	order  []cacheKey // a ring buffer once it is full
	next   int        // the oldest one in the ring
}

type cacheKey [sha256.Size]byte

type kept struct {
	ids   authprovider.Identities
	until time.Time
}

// key returns the key of a question, which depends on the credential and the client's address.
func (c *cache) key(r *authprovider.Request) (key cacheKey) {
	c.mu.Lock()
	if c.secret == nil {
		c.secret = make([]byte, sha256.Size)
		rand.Read(c.secret) // never fails
	}
	h := hmac.New(sha256.New, c.secret)
	c.mu.Unlock()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(r.Address))))
	h.Write([]byte(r.Address))
	h.Write(r.Auth)
	h.Sum(key[:0])
	return key
}

func (c *cache) get(key cacheKey, now time.Time) (authprovider.Identities, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[key]
	return k.ids, ok && now.Before(k.until)
}

func (c *cache) put(key cacheKey, ids authprovider.Identities, now time.Time) {
	until := now.Add(c.last)
	if !ids.Expires.IsZero() && ids.Expires.Before(until) {
		until = ids.Expires
	}
	if !now.Before(until) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[cacheKey]kept{}
	}
	if _, known := c.kept[key]; !known {
		if len(c.order) < cacheEntriesMax {
			c.order = append(c.order, key)
		} else {
			delete(c.kept, c.order[c.next])
			c.order[c.next] = key
			c.next = (c.next + 1) % cacheEntriesMax
		}
	}
	c.kept[key] = kept{ids, until}
}
