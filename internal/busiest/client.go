package busiest

import (
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// identitiesMax is how many of a client's identities count.
const identitiesMax = 4

// A Client is a connection with the sampler of its requests, and how its session and identities are called. It has no
// lock.
type Client struct {
	Sampler
	id         int64 // of the session
	session    string
	of         *[]jute.ID // what identities was made of
	identities []string
}

// Sample returns a sample of that weight, to be completed; ids are who the client has proved to be, and another pointer
// once that has changed.
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
