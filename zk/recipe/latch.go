package recipe

import (
	"context"
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// A Latch takes part in an election from NewLatch to Close, and tells whether this client leads. Unlike Election it
// calls no function.
//
// Its layout is that of Curator's LeaderLatch; Options.Data is the latch's id there. When the connection is lost, the
// latch stops leading; it leads again if the connection comes back in time. When the session expires, it takes part
// again with a new one.
type Latch struct {
	sessions *zk.Sessions
	path     string
	opt      Options
	stop     context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	held    *Held         // nil if others lead or the leader is uncertain
	err     error         // why the latch has ended; nil before
	changed chan struct{} // closed and replaced when a field above changes
}

// NewLatch takes part in the election whose candidates are children of path. It returns at once; Wait waits. The caller
// must Close the latch.
func NewLatch(sessions *zk.Sessions, path string, opt Options) *Latch {
	ctx, stop := context.WithCancel(context.Background())
	l := &Latch{
		sessions: sessions, path: path, opt: opt, stop: stop, done: make(chan struct{}), changed: make(chan struct{}),
	}
	go l.run(ctx)
	return l
}

func (l *Latch) line(c *zk.Client) *line {
	return &line{c: c, dir: l.path, name: "latch-", marks: marks{exclusive: []string{"latch-"}}, opt: l.opt}
}

func (l *Latch) run(ctx context.Context) {
	defer close(l.done)
	for {
		var held *Held
		err := l.sessions.Run(ctx, func(c *zk.Client) (err error) {
			held, err = l.line(c).lock(ctx, true)
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				err = ErrClosed
			}
			l.publish(nil, err)
			return
		}
		l.lead(ctx, held)
	}
}

// lead publishes leadership until held or ctx ends.
func (l *Latch) lead(ctx context.Context, held *Held) {
	for {
		l.publish(held, nil)
		select {
		case <-held.Context().Done():
		case <-ctx.Done():
		}
		l.publish(nil, nil)
		if ctx.Err() == nil && held.Confirm(ctx) == nil {
			continue
		}
		resign(ctx, held)
		return
	}
}

func (l *Latch) publish(held *Held, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.err = held, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// Leading returns the leadership if this client has it, else nil. After a lost connection it returns nil until the
// latch has confirmed the leadership, so the caller needn't call Confirm. Work that depends on the leadership belongs
// under its Context, which can end at any moment and has no values. A confirmed leadership is the same Held as before.
// Unlock resigns; the latch then takes part again behind the others.
func (l *Latch) Leading() *Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Wait waits until this client leads, and returns at once if it does. After a lost connection it waits until the latch
// has confirmed the leadership; its Context is then a new one. It fails when ctx ends. It fails with ErrClosed if the
// latch is closed, with zk.ErrClosed if its zk.Sessions is closed, and with the error that has ended the latch, such as
// zk.ErrNoAuth or that of an invalid path.
func (l *Latch) Wait(ctx context.Context) (*Held, error) {
	for {
		l.mu.Lock()
		held, err, changed := l.held, l.err, l.changed
		l.mu.Unlock()
		if held != nil || err != nil {
			return held, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("recipe: wait to lead %s: %w", l.path, ctx.Err())
		}
	}
}

// Leader returns the candidate that leads, or ErrNoLeader. The answer may already be out of date. It takes a request
// for each candidate, as Candidates does.
func (l *Latch) Leader(ctx context.Context) (Participant, error) {
	return first(l.Candidates(ctx))
}

// Candidates returns the leader, if there is one, and then its successors in order. It takes a request for each.
func (l *Latch) Candidates(ctx context.Context) ([]Participant, error) {
	c, err := l.sessions.Client(ctx)
	if err != nil {
		return nil, err
	}
	return l.line(c).participants(ctx)
}

// Close resigns and leaves the election. If this client leads, Close waits for the ensemble to delete the znode, up to
// five seconds; otherwise the znode is deleted in the background. The context of Leading ends before that. Close is
// idempotent.
func (l *Latch) Close() {
	l.stop()
	<-l.done
}
