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

// A Lock is held by one user at a time. Each user has a Lock of its own with the same path. The end of the session
// releases it; the holder learns of it only from the Conn's events, and isn't certain to hold it from StateDisconnected
// on. Only one goroutine may use a Lock.
type Lock struct {
	c    *Conn
	path string
	acl  []ACL
	mine string // the znode in the line; "" if the lock isn't held

	unsure bool // a deletion of mine may have been applied
}

// NewLock returns a Lock whose znodes are children of path, which must have no other use. It uses acl for all znodes
// that it creates, including missing parents.
func NewLock(c *Conn, path string, acl []ACL) *Lock { return &Lock{c: c, path: path, acl: acl} }

// Lock waits until it has the lock. It fails with ErrDeadlock if this Lock already has it. It also fails, and leaves
// the line, if one of its requests fails, such as by a lost connection, or the session ends.
func (l *Lock) Lock() error { return l.LockWithData([]byte{}) }

// LockWithData is Lock with data for the znode in the line.
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

// leavePause is the pause between attempts to leave the line while the network is down. leaveTries bounds the attempts
// that the server refuses, since it may refuse them only temporarily.
const (
	leavePause = 100 * time.Millisecond
	leaveTries = 10
)

// over are the errors after which there is nothing to delete, or no permission to delete it.
var over = []error{ErrNoNode, ErrNoAuth, ErrSessionExpired, ErrAuthFailed, ErrClosing}

// leave deletes an abandoned place in the line, even if the network is down for a while: the session may outlast that,
// and all participants behind the place would wait for it. The name has a UUID, so a repeated deletion does no harm.
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

// Unlock releases the lock. It fails with ErrNotLocked if the lock isn't held. If the connection is lost, or the server
// refuses the deletion, it fails and can be called again. If the lock was lost, it fails with ErrNoNode or
// ErrSessionExpired, and the Lock can be used again.
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

// enterTries bounds the attempts to enter the line when the parents disappear again.
const enterTries = 3

// enter enters the line, and returns the path of the znode.
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
			// The server's counter has 32 bits and wraps around, and so do differences of its values.
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

// numberOf returns the number at the end of a name. In the names of kazoo's locks, "__" precedes it.
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
