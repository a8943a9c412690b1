package zk

import (
	"context"
	"time"
)

// A Txn is a Multi that is built step by step:
//
//	var job zk.Created
//	err := c.Txn().
//		Check("/workers/7", stat.Version).
//		Create("/jobs/j-", data, zk.ModePersistentSequential, acl, &job).
//		Set("/count", count, zk.AnyVersion).
//		Commit(ctx)
//
// Each step sees the effects of the steps before it. Nothing is sent before Commit, which applies all steps or none.
// When Commit succeeds, it stores results in the variables passed to the steps; when it fails, they keep their values.
// The data and lists passed to a step must not change before Commit returns. Commit also reports the invalid arguments
// of steps.
//
// Only one goroutine may use a Txn. A Txn holds no connection, and one that is never committed costs nothing.
type Txn struct {
	c    *Client
	ops  []MultiOp
	take []func(*MultiResult) // stores an operation's result; nil if it isn't wanted
}

// Txn starts an empty transaction.
func (c *Client) Txn() *Txn { return &Txn{c: c} }

// Check fails the transaction unless the znode exists and its data version is version. AnyVersion matches every
// version.
func (t *Txn) Check(path string, version int32) *Txn { return t.add(CheckOp(path, version), nil) }

// Create makes a znode, as Client.CreateStat does. Commit stores its path, with the number that a sequential mode
// appends, and its metadata in each of into. Apache's 3.8 sends metadata only for containers and TTL znodes.
func (t *Txn) Create(path string, data []byte, mode CreateMode, acl []ACL, into ...*Created) *Txn {
	return t.add(CreateOp(path, data, mode, acl), createdInto(into))
}

// CreateTTL makes a znode as Client.CreateTTL does. Commit stores its path and metadata in each of into.
func (t *Txn) CreateTTL(path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration,
	into ...*Created) *Txn {
	return t.add(CreateTTLOp(path, data, mode, acl, ttl), createdInto(into))
}

// Set replaces a znode's data if its data version is version. AnyVersion matches every version. Commit stores the
// znode's metadata after this step in each of into.
func (t *Txn) Set(path string, data []byte, version int32, into ...*Stat) *Txn {
	return t.add(SetOp(path, data, version), func(r *MultiResult) {
		for _, stat := range into {
			*stat = r.Stat
		}
	})
}

// Delete removes a znode without children if its data version is version. AnyVersion matches every version.
func (t *Txn) Delete(path string, version int32) *Txn { return t.add(DeleteOp(path, version), nil) }

// Len returns the number of operations so far.
func (t *Txn) Len() int { return len(t.ops) }

// Commit applies all operations or none and waits for the reply, as Client.Multi does. If the server refuses an
// operation, the error wraps a *MultiError with its index, name, path and code, and errors.Is finds the code. Each
// Commit sends all steps, including those that an earlier one has applied. After an error a Txn may be committed again.
// If MaybeApplied holds for the error, first find out by a Sync and a read that nothing was applied.
func (t *Txn) Commit(ctx context.Context) error {
	results, err := t.c.Multi(ctx, t.ops...)
	if err != nil {
		return err
	}
	for i, take := range t.take {
		if take != nil {
			take(&results[i])
		}
	}
	return nil
}

func (t *Txn) add(op MultiOp, take func(*MultiResult)) *Txn {
	t.ops = append(t.ops, op)
	t.take = append(t.take, take)
	return t
}

func createdInto(into []*Created) func(*MultiResult) {
	return func(r *MultiResult) {
		for _, created := range into {
			*created = Created{r.Path, r.Stat}
		}
	}
}
