package zk

import (
	"context"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A MultiResult is the outcome of one operation of a Multi or MultiRead.
type MultiResult struct {
	Path     string   // of a create: the new znode's path, with the number that a sequential mode appends
	Stat     Stat     // of a create, a set or a get
	Data     []byte   // of a get
	Children []string // of a list of children

	// Err is the Code with which an operation of a MultiRead failed, nil if it succeeded. A Multi that fails returns no
	// results.
	Err error
}

// CreateOp creates a znode. It refers to data and acl; Multi copies them. Its MultiResult has Path and, if the server
// sends it, Stat. Apache's 3.8 sends a Stat only for containers and TTL znodes; for the others Stat is zero.
func CreateOp(path string, data []byte, mode CreateMode, acl []ACL) MultiOp {
	return MultiOp{Op: opOfMode(mode), Path: path, Data: data, ACL: acl, Flags: mode}
}

// CreateTTLOp creates a znode with a time to live, as Client.CreateTTL does. Its MultiResult has Path and Stat.
func CreateTTLOp(path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration) MultiOp {
	return MultiOp{Op: jute.OpCreateTTL, Path: path, Data: data, ACL: acl, Flags: mode, TTL: ttl.Milliseconds()}
}

// DeleteOp deletes a znode if its data version is version. AnyVersion matches every version. In a chroot, "/" is the
// chroot's znode. DeleteOp can delete it, as in Apache's Java client; Client.Delete can't.
func DeleteOp(path string, version int32) MultiOp {
	return MultiOp{Op: jute.OpDelete, Path: path, Version: version}
}

// SetOp replaces a znode's data if its data version is version. AnyVersion matches every version. The MultiResult has
// Stat.
func SetOp(path string, data []byte, version int32) MultiOp {
	return MultiOp{Op: jute.OpSetData, Path: path, Data: data, Version: version}
}

// CheckOp fails the Multi unless the znode exists and its data version is version. AnyVersion matches every version.
func CheckOp(path string, version int32) MultiOp {
	return MultiOp{Op: jute.OpCheck, Path: path, Version: version}
}

// GetOp reads a znode in a MultiRead; its MultiResult has Data and Stat.
func GetOp(path string) MultiOp { return MultiOp{Op: jute.OpGetData, Path: path} }

// ChildrenOp lists a znode's children in a MultiRead; its MultiResult has Children.
func ChildrenOp(path string) MultiOp { return MultiOp{Op: jute.OpGetChildren, Path: path} }

// Multi applies all operations or none, as one change of the ensemble's state. Each operation sees the effects of those
// before it. ops may be checks, creates, sets and deletes. One request has them all, so Options.MaxRequestBytes bounds
// their data together. The results are in the order of ops. If the server refuses one, err wraps a *MultiError that
// names it, and nothing was applied. Error.Path names one with an invalid argument. Without ops Multi succeeds.
func (c *Client) Multi(ctx context.Context, ops ...MultiOp) ([]MultiResult, error) {
	return c.multi(ctx, jute.OpMulti, ops)
}

// MultiRead reads several znodes with one request. ops may be GetOp and ChildrenOp, and the results are in their order.
// Each operation succeeds or fails by itself (see MultiResult.Err), and other clients' writes may come between them.
// err is not nil only if the whole request failed. Servers before 3.6 refuse it with ErrUnimplemented.
func (c *Client) MultiRead(ctx context.Context, ops ...MultiOp) ([]MultiResult, error) {
	return c.multi(ctx, jute.OpMultiRead, ops)
}

func (c *Client) multi(ctx context.Context, op jute.Op, ops []MultiOp) ([]MultiResult, error) {
	k, err := c.multiCall(op, ops)
	if k, err = c.run(ctx, k, err); err != nil {
		return nil, err
	}
	defer k.release()
	return c.multiOf(k), nil
}

func (c *Client) multiCall(op jute.Op, ops []MultiOp) (*call, error) {
	abs := make([]MultiOp, len(ops))
	for i, o := range ops {
		if err := checkMultiOp(op, o); err != nil {
			return nil, &Error{Op: op.String(), Path: o.Path, Err: fmt.Errorf("operation %d (%s): %w", i, o.Op, err)}
		}
		abs[i] = o
		abs[i].Path = c.abs(o.Path)
	}
	k := c.newPlainCall(op, "")
	req := jute.AppendMulti(k.begin(), abs)
	for i := range abs {
		abs[i].Path = ops[i].Path
	}
	k.ops = abs // a reply may come after the caller has given up and reused ops
	return c.sized(k, req)
}

func checkMultiOp(op jute.Op, o MultiOp) error {
	checked := o.Path
	switch o.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		if err := checkCreate(o.Op, o.Path, o.Flags, o.ACL, time.Duration(o.TTL)*time.Millisecond); err != nil {
			return err
		}
		if o.Flags.Sequential() {
			checked += "1"
		}
	case jute.OpDelete, jute.OpSetData, jute.OpCheck, jute.OpGetData, jute.OpGetChildren:
	default:
		return fmt.Errorf("%w: it can't be part of a multi", ErrBadArguments)
	}
	if o.IsRead() != (op == jute.OpMultiRead) {
		return fmt.Errorf("%w: reads belong in MultiRead, writes in Multi", ErrBadArguments)
	}
	return jute.CheckPath(checked)
}

// multiFailure returns the error of the operation that made a multi fail, or nil. The header of such a reply has no
// error code; only the results have.
func (k *call) multiFailure(server string) error {
	answers := k.res.multi
	if len(answers) != len(k.ops) {
		return &Error{Op: k.op.String(), Server: server, Err: ErrMarshallingError,
			detail: fmt.Sprintf("%d results for %d operations", len(answers), len(k.ops))}
	}
	if k.op != jute.OpMulti {
		return nil
	}
	for i := range answers {
		// In the reply of a failed multi, operations before the failing one have the code 0, and those after it
		// RuntimeInconsistency.
		if r := &answers[i]; r.Op == jute.OpError && r.Err != jute.OK {
			op := &k.ops[i]
			return &Error{Op: k.op.String(), Server: server, Err: &MultiError{i, op.Op.String(), op.Path, r.Err}}
		}
	}
	return nil
}

// multiOf returns the results of k, which must have succeeded.
func (c *Client) multiOf(k *call) []MultiResult {
	answers := k.res.multi // not modified, since a Future may be read again
	results := make([]MultiResult, len(answers))
	for i := range answers {
		r := &answers[i]
		results[i] = MultiResult{Path: r.Path, Stat: r.Stat, Data: r.Data, Children: r.Children}
		if r.Op == jute.OpError && r.Err != jute.OK {
			results[i].Err = r.Err
		}
		if r.Path != "" {
			results[i].Path = stripRoot(c.root, r.Path)
		}
	}
	return results
}
