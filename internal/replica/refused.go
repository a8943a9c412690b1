package replica

import (
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// refused counts and logs a request that a limit of the tree refused: its client's error may
// have other causes.
func (o *outside) refused(c *Client, limit tree.Limit) {
	o.meters.refused[limit].Inc()
	o.clientLog.Warn("refused a request: it exceeds a limit (see docs/limits.md)", "client", c.remote,
		"session", SessionText(c.session), "limit", limit.String())
}

// tooLong refuses a read whose reply would be too long.
func (o *outside) tooLong(c *Client) jute.Code {
	o.refused(c, tree.LimitReply)
	return jute.ErrMarshallingError
}
