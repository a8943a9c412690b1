package replica

import (
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// refused counts and logs a request that a limit of the tree refused: the error that its client
// gets may have other causes.
func (r *Replica) refused(c *Client, limit tree.Limit) {
	r.meters.refused[limit].Inc()
	r.clientLog.Warn("refused a request: it exceeds a limit (see docs/limits.md)", "client", c.remote,
		"session", SessionText(c.session), "limit", limit.String())
}

// tooLong refuses a read whose reply would be too long.
func (r *Replica) tooLong(c *Client) jute.Code {
	r.refused(c, tree.LimitReply)
	return jute.ErrMarshallingError
}
