package zk

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Sessions is a client that outlives its session: it hands out one Client after
// the other, the next once the last one's session has expired. All that share a
// Sessions share its session. The recipes that last as long as the process, such as
// elections, memberships and caches, take a Sessions.
type Sessions struct {
	open func() (*Client, error)

	mu     sync.Mutex
	now    *Client // nil before the first
	closed bool
}

// NewSessions returns a source of sessions. open starts one; it should return
// without waiting, as New does:
//
//	sessions := zk.NewSessions(func() (*zk.Client, error) {
//		return zk.New("zk1,zk2,zk3/app", zk.Options{})
//	})
//	defer sessions.Close()
func NewSessions(open func() (*Client, error)) *Sessions { return &Sessions{open: open} }

// Client returns the current session, a new one if the last has expired. It may
// not be connected yet; calls on it wait. It belongs to the Sessions: don't close
// it. Client fails when the Sessions was closed, when open fails, and when the
// server refused the credentials, as it would again.
func (s *Sessions) Client(ctx context.Context) (*Client, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("zk: session: %w", ErrClosed)
	}
	if s.now != nil {
		switch state := s.now.State(); {
		case !state.State.Final():
			return s.now, nil
		case state.State == StateAuthFailed:
			return nil, fmt.Errorf("zk: session: %w", state.Err)
		}
	}
	c, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("zk: open a session: %w", err)
	}
	if state := c.State(); state.State.Final() {
		return nil, fmt.Errorf("zk: open a session: what was opened has ended already: %w", state.Err)
	}
	s.now = c
	return c, nil
}

// Close ends the current session and hands out no others. It is idempotent.
func (s *Sessions) Close() {
	s.mu.Lock()
	c := s.now
	s.closed = true
	s.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// sessionSettled is how long a session must have lasted for the next one to be
// opened without a pause.
const sessionSettled = 5 * time.Second

// Run calls work with a session, and again with the next session each time work fails
// because its session is over (SessionLost). It returns any other result of work, nil
// included, and the error of ctx or of Client when these fail. It pauses, longer each time,
// between sessions that end soon after they begin.
func (s *Sessions) Run(ctx context.Context, work func(*Client) error) error {
	for ended := 0; ; ended++ {
		begun := time.Now()
		c, err := s.Client(ctx)
		if err != nil {
			return err
		}
		if err := work(c); err == nil || ctx.Err() != nil || !SessionLost(err) {
			return err
		}
		if time.Since(begun) >= sessionSettled {
			ended = 0
		}
		if ended > 0 && sleep(ctx, jitter(roundPause<<min(ended, roundLimit))) != nil {
			return context.Cause(ctx)
		}
	}
}
