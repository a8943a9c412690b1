package busiest

import (
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// identitiesMax bounds how many of a client's identities are counted.
const identitiesMax = 4

// A Client samples the requests of a connection, and caches the names of its session and identities. It isn't safe for
// concurrent use.
type Client struct {
	Sampler
	id         int64 // the session's id
	session    string
	of         *[]jute.ID // the ids that identities was made from
	identities []string
}

// Sample returns a sample with a weight, for the caller to complete. ids are the client's identities; the pointer must
// change when they change.
func (c *Client) Sample(weight int32, session int64, ids *[]jute.ID) Sample {
	if c.id != session || c.session == "" {
		c.id, c.session = session, "0x"+strconv.FormatUint(uint64(session), 16)
	}
	if c.of != ids {
		c.of, c.identities = ids, nil
		for _, id := range *ids {
			if name := strings.TrimSpace(auth.UserName(id)); name != "" && len(c.identities) < identitiesMax {
				c.identities = append(c.identities, id.Scheme+":"+name)
			}
		}
	}
	return Sample{Weight: weight, Session: c.session, Identities: c.identities}
}
