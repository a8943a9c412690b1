package tree

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// An identityCache keeps the decoded identities of requests by their encoding, so that a connection's identities are
// decoded once and not with each write. Dropped identities are decoded again.
type identityCache struct {
	decoded map[string][]jute.ID
	bytes   int // of all keys
}

// identitiesBytesMax bounds the cache. It has room for tens of thousands of connections whose
// identities are an address and a user.
const identitiesBytesMax = 4 << 20

// decode returns the identities in raw, a vector of ID. They don't share raw's memory.
func (c *identityCache) decode(raw []byte) []jute.ID {
	if ids, ok := c.decoded[string(raw)]; ok {
		return ids
	}
	d := jute.NewDecoder([]byte(strings.Clone(text(raw))))
	ids := make([]jute.ID, max(d.Count(8), 0))
	for i := range ids {
		ids[i].Decode(d)
	}
	if len(raw) > identitiesBytesMax {
		return ids
	}
	if c.decoded == nil || c.bytes+len(raw) > identitiesBytesMax {
		c.decoded, c.bytes = map[string][]jute.ID{}, 0
	}
	c.decoded[string(raw)] = ids
	c.bytes += len(raw)
	return ids
}
