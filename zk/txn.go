package zk

import (
	"context"
	"time"
)

// A Txn is a multi that is put together step by step and reads in the order of its effects:
//
//	var job zk.Created
//	err := c.Txn().
//		Check("/workers/7", stat.Version).
//		Create("/jobs/j-", data, zk.ModePersistentSequential, acl, &job).
//		Set("/count", count, zk.AnyVersion).
//		Commit(ctx)
//
// Each step sees the effects of those before it. Nothing is sent before Commit, and then all is
// applied or nothing. Results go to the variables that a step is given, when Commit succeeds;
// without success they keep what they had. The data and lists that a step is given must not
// change before Commit returns.
//
// A Txn is for one goroutine. It holds no connection, and one that is never committed costs
// nothing.
type Txn struct {
	c    *Client
	ops  []MultiOp
	take []func(*MultiResult) // where an operation's result goes; nil for nowhere
}

// Txn starts an empty transaction.
func (c *Client) Txn() *Txn { return &Txn{c: c} }

// Check fails the transaction unless the znode exists and its data has the version, AnyVersion
// for any.
func (t *Txn) Check(path string, version int32) *Txn { return t.add(CheckOp(path, version), nil) }

// Create makes a znode, as Client.CreateStat. Its path, which a sequential mode has lengthened,
// and its metadata go to each of into. Apache's 3.8 tells no metadata except for containers.
func (t *Txn) Create(path string, data []byte, mode CreateMode, acl []ACL, into ...*Created) *Txn {
	return t.add(CreateOp(path, data, mode, acl), createdInto(into))
}

// CreateTTL makes a znode with a time to live, as Client.CreateTTL. Its path and metadata go to
// each of into.
func (t *Txn) CreateTTL(path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration,
	into ...*Created) *Txn {
	return t.add(CreateTTLOp(path, data, mode, acl, ttl), createdInto(into))
}

// Set replaces a znode's data if it has the version, AnyVersion for any. The znode's metadata
// after this step goes to each of into.
func (t *Txn) Set(path string, data []byte, version int32, into ...*Stat) *Txn {
	return t.add(SetOp(path, data, version), func(r *MultiResult) {
		for _, stat := range into {
			*stat = r.Stat
		}
	})
}

// Delete removes a znode without children if its data has the version, AnyVersion for any.
func (t *Txn) Delete(path string, version int32) *Txn { return t.add(DeleteOp(path, version), nil) }

// Len returns the number of operations so far.
func (t *Txn) Len() int { return len(t.ops) }

// Commit applies all operations or none, and waits for the reply as Client.Multi does. If an
// operation is refused, the error wraps a *MultiError that has its place, name, path and code,
// and errors.Is finds the code. A Txn may be committed again: after an error that Retryable
// reports, or where MaybeApplied reports it and reading shows that nothing was applied.
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
