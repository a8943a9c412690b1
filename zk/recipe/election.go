package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// An Election makes one client at a time the leader.
//
// Its layout is that of Curator's LeaderSelector and of a Mutex; see Mutex for sharing it with kazoo's Election.
// Options.Data identifies the candidate, as the selector's id does in Curator.
//
// When the connection is lost, the leader's context ends, since another client may lead before the connection comes
// back. If it comes back in time, the same client continues to lead with the same token. If the session has expired,
// the client takes part again with a new one.
type Election struct {
	sessions *zk.Sessions
	path     string
	opt      Options
}

// NewElection returns the election whose candidates are children of path. It sends no request.
func NewElection(sessions *zk.Sessions, path string, opt Options) *Election {
	return &Election{sessions, path, opt}
}

// Run takes part in the election and calls lead when this client leads. lead must return soon after its context has
// ended, since another client may lead then. Unlike held.Context, lead's context ends when that of Run ends. It also
// ends, with a cause that wraps ErrSuspended or ErrLost, when this client may no longer lead. Run then waits for lead
// to return, ignores its error, and calls lead again when this client leads. If lead calls held.Unlock, the same
// happens with the cause ErrReleased; the next leader is then another candidate, if there is one.
//
// When lead returns while its context is alive, or after the context of Run has ended, Run resigns, which may take up
// to five seconds, and returns lead's error. To lead again, call Run again. While this client doesn't lead, Run returns
// an error when ctx ends, when the zk.Sessions is closed or can't open a session, and when the server refuses a request
// that Run needs. Each concurrent Run is a candidate of its own.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, held *Held) error) error {
	for {
		var held *Held
		err := e.sessions.Run(ctx, func(c *zk.Client) (err error) {
			held, err = NewMutex(c, e.path, e.opt).Lock(ctx)
			return err
		})
		if err != nil {
			return err
		}
		done, err := reign(ctx, held, lead)
		if done {
			return err
		}
	}
}

// reign calls lead as long as held is held. done says that lead returned by itself.
func reign(ctx context.Context, held *Held, lead func(context.Context, *Held) error) (done bool, err error) {
	defer resign(ctx, held)
	for {
		sure := held.Context()
		leading, end := context.WithCancelCause(ctx)
		detach := context.AfterFunc(sure, func() { end(context.Cause(sure)) })
		err := lead(leading, held)
		detach()
		end(nil)
		switch {
		case ctx.Err() != nil, sure.Err() == nil:
			return true, err
		case held.Confirm(ctx) != nil:
			return false, nil
		}
	}
}

// resignWait bounds how long a leader that resigns waits for the ensemble. Afterwards the deletion continues in the
// background until the session ends.
const resignWait = 5 * time.Second

// resign gives up leadership, even if ctx has ended.
func resign(ctx context.Context, held *Held) {
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignWait)
	defer cancel()
	held.Unlock(bye)
}

// ErrNoLeader says that there is no leader at the moment.
var ErrNoLeader = errors.New("nobody leads")

// Leader returns the candidate that leads, or ErrNoLeader. The answer may already be out of date. It takes a request
// for each candidate, as Candidates does.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	return first(e.Candidates(ctx))
}

// Candidates returns the leader, if there is one, and then its successors in order. It takes a request for each.
func (e *Election) Candidates(ctx context.Context) ([]Participant, error) {
	c, err := e.sessions.Client(ctx)
	if err != nil {
		return nil, err
	}
	return NewMutex(c, e.path, e.opt).Participants(ctx)
}

func first(list []Participant, err error) (Participant, error) {
	if err == nil && len(list) == 0 {
		err = ErrNoLeader
	}
	if err != nil {
		return Participant{}, err
	}
	return list[0], nil
}
