package zk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

// protectedPrefix begins the name of a znode made by CreateProtected in a
// sequential mode. A UUID and a dash follow; Curator's names have the same form,
// so recipes of both can share a directory.
const protectedPrefix = "_c_"

// CreateProtected is CreateStat that survives a lost connection: when it can't
// know if the znode was made, it reconnects and looks.
//
// In a sequential mode the last part of the name gets a unique prefix, of the
// form "_c_UUID-", by which the znode is found again. In the other modes a znode
// that exists already counts as made by this call if it was created since the
// call began and, for an ephemeral, belongs to this session; for others, if it
// still has the data given. Two clients creating the same persistent znode with
// the same data at the same moment may so both succeed.
func (c *Client) CreateProtected(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, Stat, error) {
	slash := strings.LastIndexByte(path, '/')
	dir, prefix, target := "/", "", path
	if mode.Sequential() && slash >= 0 {
		prefix = protectedPrefix + newUUID() + "-"
		target = path[:slash+1] + prefix + path[slash+1:]
		dir = path[:max(slash, 1)]
	}
	c.s.mu.Lock()
	before := c.s.zxidSeen
	c.s.mu.Unlock()
	for unsure := false; ; {
		created, stat, err := c.CreateStat(ctx, target, data, mode, acl)
		switch {
		case err == nil:
			return created, stat, nil
		case unsure && errors.Is(err, ErrNodeExists):
			found, stat, lookErr := c.madeHere(ctx, path, data, mode, before)
			switch {
			case lookErr != nil:
				return "", Stat{}, &Error{Op: opOfMode(mode).String(), Path: path, Err: lookErr, maybeApplied: true}
			case found:
				return path, stat, nil
			}
			return "", Stat{}, err
		case !MaybeApplied(err) || ctx.Err() != nil || SessionLost(err):
			return "", Stat{}, err
		}
		unsure = true
		if prefix == "" {
			continue
		}
		created, stat, lookErr := c.findProtected(ctx, dir, prefix)
		if lookErr != nil {
			return "", Stat{}, err
		}
		if created != "" {
			return created, stat, nil
		}
	}
}

// findProtected returns the child of dir whose name begins with prefix, "" if
// there is none. Sync makes sure that a create on its way has been decided.
func (c *Client) findProtected(ctx context.Context, dir, prefix string) (string, Stat, error) {
	if err := c.Sync(ctx, dir); err != nil {
		return "", Stat{}, err
	}
	names, _, err := c.Children(ctx, dir)
	if err != nil {
		return "", Stat{}, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			path := strings.TrimSuffix(dir, "/") + "/" + name
			_, stat, err := c.Get(ctx, path)
			return path, stat, err
		}
	}
	return "", Stat{}, nil
}

// madeHere reports whether the znode at path can be taken for one this session
// created with data after the zxid before.
func (c *Client) madeHere(ctx context.Context, path string, data []byte, mode CreateMode, before int64) (bool, Stat, error) {
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
