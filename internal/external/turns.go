package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// waitingMax bounds the connections that wait for their turn.
const waitingMax = 1024

// turns bounds the questions at a time. Those from one address take half of them at most,
// so that others get theirs.
type turns struct {
	all chan struct{} // one for each question under way

	mu      sync.Mutex
	waiting int
	shares  map[string]*share
}

// A share is what one address has.
type share struct {
	taken chan struct{}
	users int // that have taken one or wait
}

func newTurns(n int) *turns {
	return &turns{all: make(chan struct{}, n), shares: map[string]*share{}}
}

// take waits for a turn.
func (t *turns) take(ctx context.Context, address string) error {
	t.mu.Lock()
	if t.waiting == waitingMax {
		t.mu.Unlock()
		return fmt.Errorf("%d connections wait for their turn, the most allowed", waitingMax)
	}
	t.waiting++
	s := t.shares[address]
	if s == nil {
		s = &share{taken: make(chan struct{}, max(cap(t.all)/2, 1))}
		t.shares[address] = s
	}
	s.users++
	t.mu.Unlock()

	err := enter(ctx, s.taken)
	if err == nil {
		if err = enter(ctx, t.all); err != nil {
			<-s.taken
		}
	}
	t.mu.Lock()
	t.waiting--
	if err != nil {
		t.leave(address)
	}
	t.mu.Unlock()
	return err
}

// give ends a turn that was taken.
func (t *turns) give(address string) {
	<-t.all
	t.mu.Lock()
	defer t.mu.Unlock()
	<-t.shares[address].taken
	t.leave(address)
}

// leave is called with mu held.
func (t *turns) leave(address string) {
	s := t.shares[address]
	if s.users--; s.users == 0 {
		delete(t.shares, address)
	}
}

func enter(ctx context.Context, c chan struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.New("its turn didn't come in time")
	}
}
