package zk

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Sessions provides Clients one after another: when a session has ended, the next call of Client opens a new one. All
// users of one Sessions share its current session. Several goroutines may call its methods at once. Recipes that last
// as long as the process, such as elections, memberships and caches, take a Sessions.
type Sessions struct {
	open func() (*Client, error)

	mu     sync.Mutex
	now    *Client // nil before the first session
	closed bool
}

// NewSessions returns a Sessions whose method Client calls open for each session, one call at a time. If open fails,
// that Client fails, and the next one calls open again; but a Run, Ephemeral, Latch, Group or Cache that gets the error
// ends for good. open should return without waiting, as New does; all other calls wait for it, whatever their ctx:
//
//	sessions := zk.NewSessions(func() (*zk.Client, error) {
//		return zk.New("zk1,zk2,zk3/app", zk.Options{})
//	})
//	defer sessions.Close()
func NewSessions(open func() (*Client, error)) *Sessions { return &Sessions{open: open} }

// Client returns the current session, or a new one if the last has ended. It may not be connected yet; calls on it
// wait. The caller must not close it. Client fails if the Sessions is closed (ErrClosed), if open fails, if ctx has
// ended, and if a server has refused the credentials (ErrAuthFailed), since it would refuse them again.
func (s *Sessions) Client(ctx context.Context) (*Client, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
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

// Close ends the current session as Client.Close does, and prevents new ones. It is idempotent.
func (s *Sessions) Close() {
	s.mu.Lock()
	c := s.now
	s.closed = true
	s.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// sessionSettled is how long a session must have lasted for Run to open the next one without a pause.
const sessionSettled = 5 * time.Second

// Run calls work with a session. When work fails because its session has ended (SessionLost), and ctx hasn't, Run calls
// it again with the next session. It returns any other result of work, nil included, and errors of ctx and of Client.
// If the next call fails so within five seconds, Run pauses before the one after it, longer each time, up to 1.6 s.
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
			return ctx.Err()
		}
	}
}
