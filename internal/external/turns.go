package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// waitingMax bounds the connections that wait to ask.
const waitingMax = 1024

// turns bounds the concurrent questions. One address may use at most half of them, so that others get a share.
type turns struct {
	all chan struct{} // holds one element per running question

	mu      sync.Mutex
	waiting int
	shares  map[string]*share
}

// A share is the part that one address uses.
type share struct {
	taken chan struct{}
	users int // how many use the share or wait for it
}

func newTurns(n int) *turns {
	return &turns{all: make(chan struct{}, n), shares: map[string]*share{}}
}

// take waits until a question may be asked.
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

// give releases what take has acquired.
func (t *turns) give(address string) {
	<-t.all
	t.mu.Lock()
	defer t.mu.Unlock()
	<-t.shares[address].taken
	t.leave(address)
}

// leave removes a user of an address's share. The caller holds mu.
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
