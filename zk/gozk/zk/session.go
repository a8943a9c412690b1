package zk

import (
	"context"
	"net"

	zooid "github.com/zooid-project/zooid/zk"
)

// run reports the events of the sessions, one session after the other.
func (c *Conn) run() {
	defer close(c.done)
	for {
		c.mu.Lock()
		states := c.states
		c.mu.Unlock()
		end := c.follow(states)
		states.Close()
		if end != zooid.StateExpired || !c.renew() {
			c.finish(end)
			return
		}
	}
}

// follow reports every state change of a session, and returns the last state.
func (c *Conn) follow(states *zooid.States) zooid.State {
	for {
		<-states.Ready()
		if end := c.tellStates(); end.Final() {
			return end
		}
	}
}

// renew opens the next session. It returns false if the Conn is closed.
func (c *Conn) renew() bool {
	c.mu.Lock()
	closed, old := c.closed, c.client
	c.mu.Unlock()
	old.Close()
	if closed {
		return false
	}
	if err := c.open(); err != nil {
		c.logf(false, "zk: can't open another session: %v", err) // the options have worked before
		return false
	}
	c.mu.Lock()
	closed = c.closed
	client := c.client
	if !closed {
		close(c.renewed)
		c.renewed = make(chan struct{})
	}
	c.mu.Unlock()
	if closed { // the Conn was closed meanwhile; Close may have seen only the old session
		client.Close()
	}
	return true
}

// finish ends the Conn.
func (c *Conn) finish(end zooid.State) {
	c.mu.Lock()
	client := c.client
	if end != zooid.StateAuthFailed && !c.closed { // after StateAuthFailed, calls return that error themselves
		c.closed = true
		close(c.renewed)
	}
	c.flush()
	c.mu.Unlock()
	client.Close()
	c.telling.Lock()
	defer c.telling.Unlock()
	c.over = true
	close(c.events)
}

// tellStates reports the session's state changes that haven't been reported yet, and returns the last state. It is
// called before any other event is reported.
func (c *Conn) tellStates() zooid.State {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	states := c.states
	c.mu.Unlock()
	last := zooid.StateConnecting
	for {
		change, ok := states.Try()
		if !ok {
			return last
		}
		last = change.State
		c.tellState(change)
	}
}

// tellState reports one change. The caller holds c.telling.
func (c *Conn) tellState(change zooid.StateChange) {
	switch change.State {
	case zooid.StateConnecting:
		if change.Server != "" { // a connection was lost; it isn't the first state
			c.logf(true, "zk: connection lost: %v", change.Err)
			c.become(StateDisconnected)
		}
	case zooid.StateConnected:
		c.hosts.Connected()
		c.mu.Lock()
		c.tried = 0
		c.mu.Unlock()
		c.logf(true, "zk: session 0x%x", change.SessionID)
		c.become(StateHasSession)
	case zooid.StateExpired:
		c.logf(false, "zk: session 0x%x has expired", change.SessionID)
		c.become(StateExpired)
		c.endWatches(ErrSessionExpired)
		c.become(StateDisconnected)
	case zooid.StateAuthFailed:
		c.logf(false, "zk: %v", change.Err)
		c.endWatches(ErrAuthFailed)
		c.become(StateAuthFailed)
	case zooid.StateClosed:
		c.become(StateDisconnected)
		c.endWatches(ErrClosing)
	}
}

// become sets the state and reports it. The caller holds c.telling.
func (c *Conn) become(state State) {
	c.mu.Lock()
	c.state = state
	server := c.server
	c.mu.Unlock()
	c.tell(Event{Type: EventSession, State: state, Server: server})
}

// tell delivers an event. The caller holds c.telling.
func (c *Conn) tell(e Event) {
	if c.over {
		return
	}
	if c.callback != nil {
		c.callback(e)
	}
	select {
	case c.events <- e:
	default: // the channel is full; the callback has received the event
	}
}

// dial makes one attempt to connect, to the server that the HostProvider chooses.
func (c *Conn) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	c.tellStates()
	server, again := c.hosts.Next()
	c.mu.Lock()
	c.server = server
	failed := c.state == StateConnected // the last attempt connected but got no session
	if c.tried++; again && c.tried > 1 {
		c.flush()
		c.round, c.flush = context.WithCancel(context.Background())
	}
	c.mu.Unlock()
	c.telling.Lock()
	if failed {
		c.become(StateDisconnected)
	}
	c.become(StateConnecting)
	c.telling.Unlock()
	conn, err := c.dialer(network, server, dialTimeout)
	if err == nil && ctx.Err() != nil {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		if ctx.Err() == nil {
			c.logf(false, "zk: can't connect to %s: %v", server, err)
		}
		return nil, err
	}
	c.telling.Lock()
	c.become(StateConnected)
	c.telling.Unlock()
	return conn, nil
}
