package zk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
	zooid "github.com/zooid-project/zooid/zk"
)

// statOf returns the Stat to return with an error: nil if no server has replied.
func statOf(s zooid.Stat, err error) *Stat {
	if errors.Is(err, ErrConnectionClosed) || errors.Is(err, ErrInvalidPath) {
		return nil
	}
	return &Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Ctime: s.Ctime, Mtime: s.Mtime, Version: s.Version, Cversion: s.Cversion,
		Aversion:       s.Aversion,
		EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren, Pzxid: s.Pzxid,
	}
}

// read makes a call that reads a znode.
func read[T any](c *Conn, path string, call func(*zooid.Client, context.Context, string) (T, zooid.Stat, error),
) (T, *Stat, error) {
	client, ctx, err := c.current()
	if err != nil {
		var none T
		return none, nil, err
	}
	v, stat, err := call(client, ctx, path)
	err = errorOf(err)
	return v, statOf(stat, err), err
}

// readWatched makes a call that reads a znode and sets a watch.
func readWatched[T any](c *Conn, path string,
	call func(*zooid.Client, context.Context, string) (T, zooid.Stat, *zooid.Watch, error),
) (v T, _ *Stat, _ <-chan Event, _ error) {
	client, ctx, err := c.current()
	if err != nil {
		return v, nil, nil, err
	}
	read, stat, w, err := call(client, ctx, path)
	if err != nil {
		return v, nil, nil, errorOf(err)
	}
	return read, statOf(stat, nil), c.watching(client, w), nil
}

// Get returns a znode's data and metadata. If a call fails, it returns no metadata: nil or a zero Stat.
func (c *Conn) Get(path string) ([]byte, *Stat, error) { return read(c, path, (*zooid.Client).Get) }

// GetW is like Get and also returns a channel that gets one Event when the data change or the znode is deleted. If GetW
// fails, for example because there is no znode, no watch is set and the channel is nil.
func (c *Conn) GetW(path string) ([]byte, *Stat, <-chan Event, error) {
	return readWatched(c, path, (*zooid.Client).GetW)
}

// Children returns the names of a znode's children, and the znode's metadata.
func (c *Conn) Children(path string) ([]string, *Stat, error) {
	names, stat, err := read(c, path, (*zooid.Client).Children)
	if err == nil && names == nil {
		names = []string{}
	}
	return names, stat, err
}

// ChildrenW is like Children and also returns a channel that gets one Event when a child is created or deleted, or the
// znode is deleted. If ChildrenW fails, no watch is set and the channel is nil.
func (c *Conn) ChildrenW(path string) ([]string, *Stat, <-chan Event, error) {
	names, stat, events, err := readWatched(c, path, (*zooid.Client).ChildrenW)
	if err == nil && names == nil {
		names = []string{}
	}
	return names, stat, events, err
}

// Exists reports whether the znode at path exists, and returns its metadata, zero if it doesn't exist.
func (c *Conn) Exists(path string) (bool, *Stat, error) {
	return read(c, path, func(c *zooid.Client, ctx context.Context, path string) (bool, zooid.Stat, error) {
		stat, ok, err := c.Exists(ctx, path)
		return ok, stat, err
	})
}

// ExistsW is like Exists and also returns a channel that gets one Event when the znode is created or deleted or its
// data change. If ExistsW fails, no watch is set and the channel is nil.
func (c *Conn) ExistsW(path string) (bool, *Stat, <-chan Event, error) {
	exists := func(c *zooid.Client, ctx context.Context, path string) (bool, zooid.Stat, *zooid.Watch, error) {
		stat, ok, w, err := c.ExistsW(ctx, path)
		return ok, stat, w, err
	}
	return readWatched(c, path, exists)
}

// Set replaces a znode's data if its data version is version. -1 matches every version.
func (c *Conn) Set(path string, data []byte, version int32) (*Stat, error) {
	client, ctx, err := c.current()
	if err != nil {
		return nil, err
	}
	stat, err := client.Set(ctx, path, data, version)
	err = errorOf(err)
	return statOf(stat, err), err
}

// Delete removes a znode without children if its data version is version. -1 matches every version.
func (c *Conn) Delete(path string, version int32) error {
	client, ctx, err := c.current()
	if err != nil {
		return err
	}
	return errorOf(client.Delete(ctx, path, version))
}

// GetACL returns a znode's access control list, and its metadata.
func (c *Conn) GetACL(path string) ([]ACL, *Stat, error) {
	client, ctx, err := c.current()
	if err != nil {
		return nil, nil, err
	}
	theirs, stat, err := client.GetACL(ctx, path)
	var acl []ACL
	for _, a := range theirs {
		acl = append(acl, ACL{Perms: int32(a.Perms), Scheme: a.ID.Scheme, ID: a.ID.ID})
	}
	err = errorOf(err)
	return acl, statOf(stat, err), err
}

// SetACL replaces a znode's access control list if its ACL version (Stat.Aversion) is version. -1 matches every
// version.
func (c *Conn) SetACL(path string, acl []ACL, version int32) (*Stat, error) {
	client, ctx, err := c.current()
	if err != nil {
		return nil, err
	}
	stat, err := client.SetACL(ctx, path, aclOf(acl), version)
	err = errorOf(err)
	return statOf(stat, err), err
}

// Sync waits until the server has applied all changes acknowledged before the call. It returns the path.
func (c *Conn) Sync(path string) (string, error) {
	client, ctx, err := c.current()
	if err != nil {
		return "", err
	}
	if err := errorOf(client.Sync(ctx, path)); err != nil {
		return "", err
	}
	return path, nil
}

// AddAuth authenticates the session, and later sessions, with the credentials auth of scheme, and waits for the reply.
// If the server refuses them, AddAuth fails with ErrAuthFailed, and the connection is lost but not the session.
func (c *Conn) AddAuth(scheme string, auth []byte) error {
	client, ctx, err := c.current()
	if err != nil {
		return err
	}
	if err := client.AddAuth(ctx, scheme, auth); err != nil {
		return errorOf(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creds = append(c.creds, zooid.Auth{Scheme: scheme, Auth: append([]byte(nil), auth...)})
	return nil
}

// modeOf returns the mode for the flag of a create at path.
func modeOf(flag int32, path string) (zooid.CreateMode, error) {
	mode := zooid.CreateMode(flag)
	if !mode.Valid() {
		return 0, fmt.Errorf("invalid flag value: [%v]", flag)
	}
	if !validPath(path, mode) {
		return 0, ErrInvalidPath
	}
	return mode, nil
}

// Create makes a znode and returns its path, to which FlagSequence appends a number.
func (c *Conn) Create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	mode, err := modeOf(flags, path)
	if err != nil {
		return "", err
	}
	if mode.TTL() {
		return "", fmt.Errorf("Create with TTL flag disallowed: %w", ErrInvalidFlags)
	}
	client, ctx, err := c.current()
	if err != nil {
		return "", err
	}
	path, err = client.Create(ctx, path, data, mode, aclOf(acl))
	return path, errorOf(err)
}

// CreateContainer makes a container, which the server removes once it has had children and has none left. flag must be
// FlagContainer.
func (c *Conn) CreateContainer(path string, data []byte, flag int32, acl []ACL) (string, error) {
	mode, err := modeOf(flag, path)
	if err != nil {
		return "", err
	}
	if mode != zooid.ModeContainer {
		return "", fmt.Errorf("CreateContainer requires container flag: %w", ErrInvalidFlags)
	}
	return c.Create(path, data, flag, acl)
}

// CreateTTL makes a znode that the server deletes once it has had no children and its data haven't changed for ttl,
// which is sent in whole milliseconds, from 1 ms to about 34 years. flag must be a flag with a TTL. Servers without
// extendedTypesEnabled refuse it.
func (c *Conn) CreateTTL(path string, data []byte, flag int32, acl []ACL, ttl time.Duration) (string, error) {
	mode, err := modeOf(flag, path)
	if err != nil {
		return "", err
	}
	if !mode.TTL() {
		return "", fmt.Errorf("CreateTTL requires TTL flag: %w", ErrInvalidFlags)
	}
	client, ctx, err := c.current()
	if err != nil {
		return "", err
	}
	path, _, err = client.CreateTTL(ctx, path, data, mode, aclOf(acl), ttl)
	return path, errorOf(err)
}

// protectedTries bounds the sessions or rounds of attempts of a protected create.
const protectedTries = 3

// CreateProtectedEphemeralSequential makes an ephemeral sequential znode with a unique prefix in its name. If the
// connection is lost before the reply, it finds the znode by the prefix. If the session expires before the reply, it
// tries again in the next one, three times in all.
func (c *Conn) CreateProtectedEphemeralSequential(path string, data []byte, acl []ACL) (string, error) {
	if !validPath(path, zooid.ModeEphemeralSequential) {
		return "", ErrInvalidPath
	}
	var err error
	for range protectedTries {
		var client *zooid.Client
		var ctx context.Context
		if client, ctx, err = c.current(); err != nil {
			return "", err
		}
		var created string
		created, _, err = client.CreateProtected(ctx, path, data, zooid.ModeEphemeralSequential, aclOf(acl))
		if err = errorOf(err); !errors.Is(err, ErrSessionExpired) {
			return created, err
		}
	}
	return "", err
}

func validPath(path string, mode zooid.CreateMode) bool {
	if mode.Sequential() {
		path += "1"
	}
	return jute.CheckPath(path) == nil
}

// IncrementalReconfig adds the servers joining, such as "server.4=10.0.0.4:2888:3888;2181", and removes those with the
// ids leaving, such as "3". It fails unless the ensemble's configuration has the version. -1 matches every version. It
// returns the metadata of the new configuration.
func (c *Conn) IncrementalReconfig(joining, leaving []string, version int64) (*Stat, error) {
	return c.reconfig(zooid.Reconfig{Joining: joining, Leaving: leaving, FromConfig: &version})
}

// Reconfig replaces the ensemble's servers by members; see IncrementalReconfig.
func (c *Conn) Reconfig(members []string, version int64) (*Stat, error) {
	return c.reconfig(zooid.Reconfig{Members: members, FromConfig: &version})
}

func (c *Conn) reconfig(change zooid.Reconfig) (*Stat, error) {
	client, ctx, err := c.current()
	if err != nil {
		return &Stat{}, err
	}
	_, stat, err := client.Reconfig(ctx, change)
	return statOf(stat, nil), errorOf(err)
}
