package zk

import (
	"context"
	"fmt"
	"maps"
)

// A State says what a client can do at the moment.
type State int

// The states. The last three are final.
const (
	StateConnecting        State = iota // no connection; calls wait for one
	StateConnected                      // all calls are answered
	StateConnectedReadOnly              // reads are answered; writes and Sync fail with ErrNotReadOnly
	StateExpired                        // a server said so, or none answered for 4/3 of the timeout
	StateAuthFailed                     // the server refused the client's credentials
	StateClosed                         // Close or Detach was called
)

var stateNames = [...]string{"connecting", "connected", "connected read-only", "expired", "authentication failed",
	"closed"}

// String returns the state in words.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// Final reports whether no other state can follow.
func (s State) Final() bool { return s >= StateExpired }

// A StateChange is a change of a client's state.
type StateChange struct {
	State     State
	Server    string // the server connected to or lost, as host:port; else ""
	SessionID int64  // before the first connection 0, or that of Options.Resume
	Err       error  // why a connection was lost or the session ended

	// Missed counts the changes before this one that were dropped because the reader was too slow.
	Missed int
}

// statesMax bounds the unread changes of one reader. For a slow reader only the latest matters.
const statesMax = 64

// States delivers a client's state changes to one reader, in order. It never blocks the client: if another change comes
// while 64 are unread, it replaces them, and Missed counts them.
type States struct {
	s   *session
	box mailbox[StateChange]
}

// States subscribes to state changes. The first one delivered is the current state. The caller must Close the result.
func (c *Client) States() *States {
	f := &States{s: c.s}
	f.box = newMailbox(statesMax, func(dropped []StateChange) StateChange {
		last := dropped[len(dropped)-1]
		for _, d := range dropped[:len(dropped)-1] {
			last.Missed += d.Missed + 1
		}
		return last
	})
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	f.box.put(c.s.now)
	if c.s.end != nil {
		f.box.close(c.s.end)
	} else {
		c.s.feeds[f] = struct{}{}
	}
	return f
}

// Next waits for the next change. Once all are read, it returns the error that ended the client after a final state,
// and ErrStatesClosed after States.Close. If ctx ends first, it returns ctx's error.
func (f *States) Next(ctx context.Context) (StateChange, error) { return f.box.next(ctx) }

// Try returns the next change without waiting. It returns false if there is none.
func (f *States) Try() (StateChange, bool) {
	change, ok, _ := f.box.try()
	return change, ok
}

// Ready returns a channel for use in a select. It yields a value when Try may return a change, and sometimes when there
// is none. Once the client has ended, or after Close, it always yields. Only one goroutine may receive from it.
func (f *States) Ready() <-chan struct{} { return f.box.ready }

// Close ends the subscription, also for a goroutine that waits in Next. Unread changes stay. It is idempotent.
func (f *States) Close() {
	f.s.mu.Lock()
	delete(f.s.feeds, f)
	f.s.mu.Unlock()
	f.box.close(ErrStatesClosed)
}

// State returns the latest change of the client's state.
func (c *Client) State() StateChange {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.now
}

// Wait waits until the client is connected, also to a read-only server if Options.ReadOnly is set. It returns nil at
// once if the client is connected. It returns the error that ended the client, or a *WaitError if ctx ends first.
func (c *Client) Wait(ctx context.Context) error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.now.State == StateConnecting {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			return &WaitError{Err: ctx.Err(), Failures: maps.Clone(s.trouble), text: s.troubles()}
		}
	}
	return s.end
}

// A WaitError says that Wait's context ended before there was a connection.
type WaitError struct {
	Err      error            // the context's
	Failures map[string]error // the last failure of each server tried, by host:port, and of Options.SRV, by its name

	text string // of Failures
}

// Error names the last failure of each server tried.
func (e *WaitError) Error() string {
	return fmt.Sprintf("zk: wait for a connection: %v%s", e.Err, e.text)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// become publishes a new state. The caller holds s.mu.
func (s *session) become(change StateChange) {
	s.tellState(s.now.State, change)
	s.now = change
	for f := range s.feeds {
		f.box.put(change)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
