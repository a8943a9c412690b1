package zk

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The errors of a Lock.
var (
	ErrDeadlock  = errors.New("zk: trying to acquire a lock twice")
	ErrNotLocked = errors.New("zk: not locked")
)

// A Lock is held by one of its users at a time, each with a Lock of its own on the
// same path. It is lost with the session. It is for one goroutine.
type Lock struct {
	c    *Conn
	path string
	acl  []ACL
	mine string // the znode that holds the lock; "" if it isn't held

	unsure bool // a deletion of mine may have been applied
}

// NewLock returns a Lock on a path that nothing else uses. Missing znodes above are
// created with acl.
func NewLock(c *Conn, path string, acl []ACL) *Lock { return &Lock{c: c, path: path, acl: acl} }

// Lock waits until it has the lock. If it has it already it fails with ErrDeadlock.
func (l *Lock) Lock() error { return l.LockWithData([]byte{}) }

// LockWithData is Lock, and leaves data in the znode that stands for the lock.
func (l *Lock) LockWithData(data []byte) error {
	if l.mine != "" {
		return ErrDeadlock
	}
	mine, err := l.enter(data)
	if err != nil {
		return err
	}
	if err := l.await(mine); err != nil {
		go l.leave(mine)
		return err
	}
	l.mine, l.unsure = mine, false
	return nil
}

// leavePause spaces the attempts to leave the line while the network is away;
// leaveTries bounds those that the server refuses, which it may do for a while only.
const (
	leavePause = 100 * time.Millisecond
	leaveTries = 10
)

// over are the errors after which there is nothing left to delete, or no right to delete it.
var over = []error{ErrNoNode, ErrNoAuth, ErrSessionExpired, ErrAuthFailed, ErrClosing}

// leave deletes a place in the line that nobody wants any more, even while the network
// is away: the session may outlast that, and everybody behind the place would wait for
// it. The name has a UUID, so a repeated deletion hits nothing else.
func (l *Lock) leave(mine string) {
	for refused := 0; refused < leaveTries; {
		err := l.c.Delete(mine, -1)
		is := func(target error) bool { return errors.Is(err, target) }
		switch {
		case err == nil, slices.ContainsFunc(over, is):
			return
		case is(ErrConnectionClosed), is(ErrNoServer):
		default:
			refused++
		}
		select {
		case <-time.After(leavePause):
		case <-l.c.done:
			return
		}
	}
}

// Unlock gives the lock back. It fails with ErrNotLocked if there is none. If the
// connection is lost it fails and can be called again. If the lock has been lost it
// fails with ErrNoNode, or with ErrSessionExpired, and the Lock can be used again.
func (l *Lock) Unlock() error {
	if l.mine == "" {
		return ErrNotLocked
	}
	err := l.c.Delete(l.mine, -1)
	switch {
	case errors.Is(err, ErrNoNode) && l.unsure:
		err = nil
	case errors.Is(err, ErrConnectionClosed) || errors.Is(err, ErrNoServer):
		l.unsure = true
		return err
	case err != nil && !errors.Is(err, ErrNoNode) && !errors.Is(err, ErrSessionExpired):
		return err
	}
	l.mine, l.unsure = "", false
	return err
}

// enterTries bounds how often the parents may disappear again.
const enterTries = 3

// enter gets in line, and returns the place.
func (l *Lock) enter(data []byte) (string, error) {
	var err error
	for range enterTries {
		var mine string
		mine, err = l.c.CreateProtectedEphemeralSequential(l.path+"/lock-", data, l.acl)
		if !errors.Is(err, ErrNoNode) {
			return mine, err
		}
		for i := 1; i <= len(l.path); i++ {
			if i < len(l.path) && l.path[i] != '/' {
				continue
			}
			if _, err := l.c.Create(l.path[:i], []byte{}, FlagPersistent, l.acl); err != nil && !errors.Is(err, ErrNodeExists) {
				return "", err
			}
		}
	}
	return "", err
}

// await waits until mine is first in line. Each znode waits only for the one before it.
func (l *Lock) await(mine string) error {
	number, err := numberOf(mine)
	if err != nil {
		return err
	}
	for {
		names, _, err := l.c.Children(l.path)
		if err != nil {
			return err
		}
		before, highest := "", int32(0)
		for _, name := range names {
			n, err := numberOf(name)
			if err != nil {
				return err
			}
			// The server's counter has 32 bits and wraps around, and so do differences.
			if n-number < 0 && (before == "" || n-highest > 0) {
				before, highest = name, n
			}
		}
		if before == "" {
			return nil
		}
		_, _, gone, err := l.c.GetW(l.path + "/" + before)
		if errors.Is(err, ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if e := <-gone; e.Err != nil {
			return e.Err
		}
	}
}

// numberOf returns the number at the end of a name; kazoo's locks have names with
// __ before it.
func numberOf(name string) (int32, error) {
	for _, mark := range []string{"lock-", "__"} {
		if i := strings.LastIndex(name, mark); i >= 0 {
			if n, err := strconv.ParseInt(name[i+len(mark):], 10, 32); err == nil {
				return int32(n), nil
			}
		}
	}
	return 0, fmt.Errorf("zk: %s has no number like a lock's", name)
}
