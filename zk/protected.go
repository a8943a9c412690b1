package zk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// protectedPrefix begins the name of a znode that CreateProtected makes in a sequential mode. A UUID and a dash follow.
// Curator's names have the same form, so recipes of both can share a directory.
const protectedPrefix = "_c_"

// A made is the outcome of a create: the znode, or the error.
type made struct {
	path string
	stat Stat
	err  error
}

// CreateProtected is like CreateStat, but tries again after a lost connection, ErrThrottledOp and ErrNotReadOnly, until
// ctx or the session ends, whatever Options.Retry says. After a lost reply it first checks whether the znode exists,
// which needs PermRead on it, and in a sequential mode on its parent.
//
// In a sequential mode the last part of the name gets a unique prefix of the form "_c_UUID-", by which the znode is
// found again. If ctx ends first, the client deletes the znode in the background if it was created, and MaybeApplied is
// false; if the session ends during that deletion, a persistent znode may stay. If the session ends after a lost reply,
// MaybeApplied holds.
//
// In modes that aren't sequential, after a lost reply, a znode at path counts as created by this call if its czxid is
// larger than any zxid that the client had seen when the call began, and if it belongs to this session (ModeEphemeral)
// or has the given data (the rest). So if two clients create the same persistent znode with the same data at the same
// moment, both may succeed. If ctx or the session ends first, or the server refuses a repeated attempt, MaybeApplied
// reports whether this call may have created the znode.
func (c *Client) CreateProtected(ctx context.Context, path string, data []byte, mode CreateMode,
	acl []ACL) (string, Stat, error) {
	slash := strings.LastIndexByte(path, '/')
	if !mode.Sequential() || slash < 0 {
		m := c.createOnce(ctx, path, data, mode, acl)
		return m.path, m.stat, m.err
	}
	dir, prefix := path[:max(slash, 1)], protectedPrefix+newUUID()+"-"
	target := path[:slash+1] + prefix + path[slash+1:]
	data, acl = bytes.Clone(data), slices.Clone(acl) // the work in the background may outlast this call
	done := make(chan made)
	started := ctx.Err() == nil && c.s.behind(func() {
		lasting := context.WithoutCancel(ctx)
		m := c.createNamed(lasting, target, dir, prefix, data, mode, acl)
		select {
		case done <- m:
		case <-ctx.Done():
			if m.err == nil {
				c.deleteSurely(lasting, m.path)
			}
		}
	})
	op := opOfMode(mode).String()
	if !started && ctx.Err() == nil {
		return "", Stat{}, &Error{Op: op, Path: path, Err: ErrClosed}
	}
	select {
	case m := <-done:
		return m.path, m.stat, m.err
	case <-ctx.Done():
		return "", Stat{}, &Error{Op: op, Path: path, Err: ctx.Err(), detail: "what was created is deleted in the background"}
	}
}

// behind runs work in the background. work must end with the session, and close waits for it. behind returns false if
// the client is closed.
func (s *session) behind(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.background.Go(work)
	return true
}

// refusedPause is the pause before another attempt at a server that temporarily refuses writes.
const refusedPause = 100 * time.Millisecond

// again reports whether to try again after err: the connection was lost or the server refuses writes temporarily, and
// neither ctx nor the session has ended.
func again(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil, SessionLost(err):
		return false
	case errors.Is(err, ErrThrottledOp), errors.Is(err, ErrNotReadOnly):
		return sleep(ctx, jitter(refusedPause)) == nil
	}
	return Retryable(err) || MaybeApplied(err) // the next call waits for a connection
}

// createNamed creates the sequential znode at target. The znode is in dir, and its name begins with prefix. After a
// lost reply it looks for the znode, until the outcome is known.
func (c *Client) createNamed(ctx context.Context, target, dir, prefix string, data []byte, mode CreateMode,
	acl []ACL) made {
	for {
		path, stat, err := c.CreateStat(ctx, target, data, mode, acl)
		if err == nil || !again(ctx, err) {
			return made{path, stat, err}
		}
		if !MaybeApplied(err) {
			continue
		}
		if m := c.lookFor(ctx, dir, prefix); m.path != "" || m.err != nil {
			return made{m.path, m.stat, stillUnknown(err, m.err)}
		}
	}
}

// lookFor returns the child of dir whose name begins with prefix, with the path "" if there is none. The Sync makes
// sure that a create with a lost reply has taken effect or never will.
func (c *Client) lookFor(ctx context.Context, dir, prefix string) made {
	for {
		err := c.Sync(ctx, dir)
		var names []string
		if err == nil {
			names, _, err = c.Children(ctx, dir)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			path := strings.TrimSuffix(dir, "/") + "/" + name
			var stat Stat
			var ok bool
			if stat, ok, err = c.Exists(ctx, path); ok {
				return made{path, stat, nil}
			}
		}
		switch {
		case err == nil, errors.Is(err, ErrNoNode):
			return made{}
		case !again(ctx, err):
			return made{err: err}
		}
	}
}

// deleteSurely deletes a znode whose name is never used again, so that deleting it twice does no harm.
func (c *Client) deleteSurely(ctx context.Context, path string) {
	for {
		if err := c.Delete(ctx, path, AnyVersion); err == nil || !again(ctx, err) {
			return
		}
	}
}

// createOnce creates the znode at path. After a lost reply it decides whether the existing znode is its own.
func (c *Client) createOnce(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) made {
	before := c.zxidSeen()
	if before == 0 && !mode.Ephemeral() { // a new client that hasn't seen a zxid
		if err := c.Sync(ctx, path); err != nil && !again(ctx, err) {
			return made{err: err}
		}
		before = c.zxidSeen()
	}
	for unsure := false; ; {
		created, stat, err := c.CreateStat(ctx, path, data, mode, acl)
		if unsure && errors.Is(err, ErrNodeExists) {
			found, stat, lookErr := c.madeHere(ctx, path, data, mode, before)
			switch {
			case lookErr != nil:
				return made{err: &Error{Op: opOfMode(mode).String(), Path: path, Err: lookErr, maybeApplied: true}}
			case found:
				return made{path, stat, nil}
			}
			return made{err: err}
		}
		unsure = unsure || MaybeApplied(err)
		if err == nil || !again(ctx, err) {
			if e, ok := errors.AsType[*Error](err); ok && unsure {
				e.maybeApplied = true // an earlier attempt may have been, whatever became of the last
			}
			return made{created, stat, err}
		}
	}
}

// zxidSeen returns the latest change that the client may have seen.
func (c *Client) zxidSeen() int64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.zxidSeen
}

// madeHere reports whether the znode at path counts as created by this session with data after the zxid before.
func (c *Client) madeHere(ctx context.Context, path string, data []byte, mode CreateMode,
	before int64) (bool, Stat, error) {
	for {
		found, stat, err := c.lookAt(ctx, path, data, mode, before)
		if err == nil || !again(ctx, err) {
			return found, stat, err
		}
	}
}

func (c *Client) lookAt(ctx context.Context, path string, data []byte, mode CreateMode,
	before int64) (bool, Stat, error) {
	if err := c.Sync(ctx, path); err != nil {
		return false, Stat{}, err
	}
	stat, ok, err := c.Exists(ctx, path)
	if err != nil || !ok || stat.Czxid <= before {
		return false, Stat{}, err
	}
	if mode.Ephemeral() {
		return stat.EphemeralOwner == c.Session().ID, stat, nil
	}
	now, stat, err := c.Get(ctx, path)
	return err == nil && bytes.Equal(now, data), stat, err
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
