package zk

import (
	"context"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A Reconfig is a change of the ensemble's membership: either Joining and Leaving, or Members. Servers have the form of
// the configuration file, such as "server.4=10.0.0.4:2888:3888:participant;2181".
type Reconfig struct {
	Joining []string // servers to add or change
	Leaving []string // ids of servers to remove, such as "3"
	Members []string // the whole new membership

	// FromConfig is the version of the configuration that the change applies to; if the current version differs,
	// Reconfig fails with ErrBadVersion. The "version=" line of the configuration has it in hexadecimal; the first
	// configuration of an ensemble has version 0. nil and -1 mean any version.
	FromConfig *int64
}

// Reconfig changes the ensemble's membership and returns the new configuration. Most ensembles allow it only to a super
// user, and only with reconfigEnabled; otherwise it fails with ErrNoAuth or ErrReconfigDisabled. Standalone servers
// refuse it with ErrUnimplemented. It fails with ErrReconfigInProgress while another change is under way, and with
// ErrNewConfigNoQuorum if too few servers of the new membership are connected to the leader. The chroot doesn't apply.
func (c *Client) Reconfig(ctx context.Context, change Reconfig) ([]byte, Stat, error) {
	if err := change.check(); err != nil {
		return nil, Stat{}, err
	}
	k, r := c.newPlainCall(jute.OpReconfig, ""), change.request()
	k, err := c.sized(k, r.Append(k.begin()))
	return dataOf(c.run(ctx, k, err))
}

func (r *Reconfig) check() error {
	reason := ""
	switch incremental := len(r.Joining)+len(r.Leaving) > 0; {
	case incremental && len(r.Members) > 0:
		reason = "Members is the whole membership; it can't go with Joining and Leaving"
	case !incremental && len(r.Members) == 0:
		reason = "it changes nothing"
	default:
		return nil
	}
	return &Error{Op: "reconfig", Err: ErrBadArguments, detail: reason}
}

// request returns the request for the change.
func (r *Reconfig) request() jute.ReconfigRequest {
	from := int64(-1)
	if r.FromConfig != nil {
		from = *r.FromConfig
	}
	return jute.ReconfigRequest{
		Joining: joined(r.Joining), Leaving: joined(r.Leaving), NewMembers: joined(r.Members), CurConfigID: from,
	}
}

// joined returns the list in the form of the request: nil if it is empty.
func joined(v []string) *string {
	if len(v) == 0 {
		return nil
	}
	s := strings.Join(v, ",")
	return &s
}
