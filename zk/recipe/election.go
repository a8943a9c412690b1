package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// An Election makes one client at a time the leader.
//
// Its layout is that of Curator's LeaderSelector, which is a Mutex's: see there
// for sharing it with kazoo's Election. Options.Data identifies the candidate; in
// Curator it is the selector's id.
//
// When the connection is lost, the leader's context ends, as another may lead
// before it comes back. If it comes back in time, the same client goes on leading
// with the same token; if the session has expired, the client takes part again
// with a new one.
type Election struct {
	sessions *zk.Sessions
	path     string
	opt      Options
}

// NewElection returns the election whose candidates are children of path.
// Nothing is created yet.
func NewElection(sessions *zk.Sessions, path string, opt Options) *Election {
	return &Election{sessions, path, opt}
}

// Run takes part in the election and calls lead when this client leads. lead must
// return soon after its context has ended, which is when leadership is in doubt
// (its cause is ErrSuspended or ErrLost) or ctx ends. In doubt, Run waits for
// lead, then takes part again, and calls lead once more when this client leads
// again or still.
//
// If lead returns while there is no doubt, Run resigns and returns its error;
// to lead again, call Run again. Run also returns when ctx ends, when the zk.Sessions have
// ended, and when the server refuses a request that it needs.
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

// reign calls lead as long as held is held; done says that lead returned by itself.
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

// resignWait bounds how long a leader that resigns waits for the ensemble. After that,
// the deletion goes on in the background, at most until the session ends.
const resignWait = 5 * time.Second

// resign gives leadership back, even if ctx has ended.
func resign(ctx context.Context, held *Held) {
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignWait)
	defer cancel()
	held.Unlock(bye)
}

// ErrNoLeader says that nobody leads at the moment.
var ErrNoLeader = errors.New("nobody leads")

// Leader returns the candidate that leads, or ErrNoLeader. By the time it is read
// another may lead.
func (e *Election) Leader(ctx context.Context) (Participant, error) {
	return first(e.Candidates(ctx))
}

// Candidates returns the leader, if there is one, and those who would follow it in
// order.
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
