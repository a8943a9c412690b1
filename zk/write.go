package zk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// Create makes a znode and returns its path, relative to the chroot. A sequential mode appends a number of ten digits
// to the path, which may then end in a slash. The parent must exist. acl must not be empty; see OpenACL and CreatorACL.
// TTL modes need CreateTTL. Create fails with ErrNodeExists if the znode exists, with ErrNoNode if the parent doesn't,
// and with ErrNoChildrenForEphemerals if the parent is ephemeral.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	op := jute.OpCreate
	if mode == ModeContainer {
		op = jute.OpCreateContainer
	}
	k, err := c.createCall(op, path, data, mode, acl, 0)
	path, _, err = c.createdOf(c.run(ctx, k, err))
	return path, err
}

// CreateStat is like Create and also returns the new znode's metadata.
func (c *Client) CreateStat(ctx context.Context, path string, data []byte, mode CreateMode,
	acl []ACL) (string, Stat, error) {
	k, err := c.createCall(opOfMode(mode), path, data, mode, acl, 0)
	return c.createdOf(c.run(ctx, k, err))
}

// CreateTTL makes a znode that the server deletes once it has had no children and its data haven't changed for ttl. ttl
// may be 1 ms to about 34 years, and is rounded down to milliseconds. mode must be a TTL mode. The deletion may come a
// minute late (znode.container.checkIntervalMs). Servers without extendedTypesEnabled refuse it with ErrUnimplemented.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL,
	ttl time.Duration) (string, Stat, error) {
	k, err := c.createCall(jute.OpCreateTTL, path, data, mode, acl, ttl)
	return c.createdOf(c.run(ctx, k, err))
}

// Delete removes a znode without children if its data version is version. AnyVersion matches every version. Delete
// fails with ErrNoNode, ErrNotEmpty or ErrBadVersion, and with ErrBadArguments for "/", also in a chroot.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	k, err := c.deleteCall(path, version)
	return nothingOf(c.run(ctx, k, err))
}

// Set replaces a znode's data if its data version is version. AnyVersion matches every version. Set returns the new
// metadata, and fails with ErrNoNode or ErrBadVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	k, err := c.setCall(path, data, version)
	return statOf(c.run(ctx, k, err))
}

// SetACL replaces a znode's access control list if its ACL version (Stat.Aversion) is aversion. AnyVersion matches
// every version. acl must not be empty. SetACL returns the new metadata, and fails with ErrNoNode or ErrBadVersion.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, aversion int32) (Stat, error) {
	k, err := c.newCall(jute.OpSetACL, path, false)
	if err == nil {
		err = checkACL(jute.OpSetACL, path, acl)
	}
	if err != nil {
		return Stat{}, err
	}
	r := jute.SetACLRequest{Path: c.abs(path), ACL: acl, Version: aversion}
	k, err = c.sized(k, r.Append(k.begin()))
	return statOf(c.run(ctx, k, err))
}

func (c *Client) createCall(op jute.Op, path string, data []byte, mode CreateMode, acl []ACL,
	ttl time.Duration) (*call, error) {
	if err := checkCreate(op, path, mode, acl, ttl); err != nil {
		return nil, err
	}
	k, err := c.newCall(op, path, mode.Sequential())
	if err != nil {
		return nil, err
	}
	r := jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: c.abs(path), Data: data, ACL: acl, Flags: mode},
		TTL:           ttl.Milliseconds(),
	}
	if op == jute.OpCreateTTL {
		return c.sized(k, r.Append(k.begin()))
	}
	return c.sized(k, r.CreateRequest.Append(k.begin()))
}

func (c *Client) deleteCall(path string, version int32) (*call, error) {
	k, err := c.newCall(jute.OpDelete, path, false)
	if err == nil && path == "/" {
		err = &Error{Op: "delete", Path: path, Err: ErrBadArguments, detail: "the root can't be deleted"}
	}
	if err != nil {
		return nil, err
	}
	r := jute.PathVersionRequest{Path: c.abs(path), Version: version}
	return c.sized(k, r.Append(k.begin()))
}

func (c *Client) setCall(path string, data []byte, version int32) (*call, error) {
	k, err := c.newCall(jute.OpSetData, path, false)
	if err != nil {
		return nil, err
	}
	r := jute.SetDataRequest{Path: c.abs(path), Data: data, Version: version}
	return c.sized(k, r.Append(k.begin()))
}

// createdOf returns the path and metadata of the znode that k created. The reply to create has no metadata.
func (c *Client) createdOf(k *call, err error) (string, Stat, error) {
	if err != nil {
		return "", Stat{}, err
	}
	defer k.release()
	return stripRoot(c.root, k.res.path), k.res.stat, nil
}

// opOfMode returns the operation that creates a znode of mode and returns its metadata.
func opOfMode(mode CreateMode) jute.Op {
	switch {
	case mode == ModeContainer:
		return jute.OpCreateContainer
	case mode.TTL():
		return jute.OpCreateTTL
	}
	return jute.OpCreate2
}

// checkCreate refuses creates that no server would accept.
func checkCreate(op jute.Op, path string, mode CreateMode, acl []ACL, ttl time.Duration) error {
	var reason string
	switch {
	case !mode.Valid():
		reason = fmt.Sprintf("unknown mode %d", mode)
	case mode.TTL() != (op == jute.OpCreateTTL):
		reason = "a TTL and a mode with TTL go together (CreateTTL, CreateTTLOp)"
	case mode.TTL() && (ttl < time.Millisecond || ttl.Milliseconds() > jute.TTLMax):
		reason = fmt.Sprintf("TTL %v is not from 1 ms to %d ms", ttl, jute.TTLMax)
	default:
		return checkACL(op, path, acl)
	}
	return &Error{Op: op.String(), Path: path, Err: ErrBadArguments, detail: reason}
}

// checkACL refuses lists that no server would accept.
func checkACL(op jute.Op, path string, acl []ACL) error {
	if len(acl) == 0 {
		return &Error{Op: op.String(), Path: path, Err: ErrInvalidACL, detail: "the list is empty; zk.WorldACL(zk.PermAll) admits everybody, zk.CreatorACL() only this client's identities"}
	}
	for i, a := range acl {
		var reason string
		switch {
		case a.ID.Scheme == "":
			reason = "no scheme"
		case a.Perms&^PermAll != 0:
			reason = fmt.Sprintf("permissions %#x have unknown bits", int32(a.Perms))
		case a.ID.Scheme == "world" && a.ID.ID != "anyone":
			reason = fmt.Sprintf("scheme world has the id anyone, not %q", a.ID.ID)
		case a.ID.Scheme == "digest" && !strings.Contains(a.ID.ID, ":"):
			reason = fmt.Sprintf("scheme digest has an id of the form user:hash, not %q", a.ID.ID)
		default:
			continue
		}
		return &Error{Op: op.String(), Path: path, Err: ErrInvalidACL, detail: fmt.Sprintf("entry %d: %s", i, reason)}
	}
	return nil
}

// AddAuth authenticates the connection with the credentials auth of scheme, such as "user:password" of "digest", and
// waits for the reply. Once the server has accepted them, every later connection uses them too. If the server refuses
// them, AddAuth fails with ErrAuthFailed, and the connection is lost but not the session. If a server refuses them on a
// later connection, the client ends with ErrAuthFailed. If ctx ends before the reply, the server may still accept them;
// later connections then use them too.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	if scheme == "" {
		return &Error{Op: "auth", Err: ErrBadArguments, detail: "no scheme given"}
	}
	k := c.newPlainCall(jute.OpAuth, scheme)
	p := jute.AuthPacket{Scheme: scheme, Auth: auth}
	k.cred = &Auth{Scheme: scheme, Auth: append([]byte(nil), auth...)}
	k, err := c.sized(k, p.Append(k.begin()))
	return nothingOf(c.run(ctx, k, err))
}
