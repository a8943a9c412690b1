package recipe

import (
	"context"
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// Sessions hands out one session after the other. A zk.Client is one session,
// and a session that has expired is over; what should outlive it (Election,
// Latch, Ephemeral, Group, Discovery, the caches) takes a Sessions instead and
// goes on with the next. All that share a Sessions share its session.
type Sessions struct {
	open func() (*zk.Client, error)

	mu     sync.Mutex
	now    *zk.Client // nil before the first
	closed bool
}

// NewSessions returns a source of sessions. open starts one; it should return
// without waiting, as zk.New does:
//
//	sessions := recipe.NewSessions(func() (*zk.Client, error) {
//		return zk.New("zk1,zk2,zk3/app", zk.Options{})
//	})
//	defer sessions.Close()
func NewSessions(open func() (*zk.Client, error)) *Sessions { return &Sessions{open: open} }

// Client returns the current session, a new one if the last has expired. It may
// not be connected yet; calls on it wait. It belongs to the Sessions: don't close
// it. It fails when the Sessions was closed, when open fails, and when the server
// refused the credentials, as it would again.
func (s *Sessions) Client(ctx context.Context) (*zk.Client, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("recipe: session: %w", zk.ErrClosed)
	}
	if s.now != nil {
		switch state := s.now.State(); {
		case !state.State.Final():
			return s.now, nil
		case state.State == zk.StateAuthFailed:
			return nil, fmt.Errorf("recipe: session: %w", state.Err)
		}
	}
	c, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("recipe: open a session: %w", err)
	}
	if state := c.State(); state.State.Final() {
		return nil, fmt.Errorf("recipe: open a session: what was opened has ended already: %w", state.Err)
	}
	s.now = c
	return c, nil
}

// Close ends the current session and hands out no more. It is idempotent.
func (s *Sessions) Close() {
	s.mu.Lock()
	c := s.now
	s.closed = true
	s.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// run calls work with one session after the other until it returns nil or an
// error other than the session's end, or until there are no more sessions.
func (s *Sessions) run(ctx context.Context, work func(*zk.Client) error) error {
	for {
		c, err := s.Client(ctx)
		if err != nil {
			return err
		}
		if err := work(c); err == nil || ctx.Err() != nil || !zk.SessionLost(err) {
			return err
		}
	}
}
