package zk

import (
	"context"
	"errors"

	"github.com/zooid-project/zooid/jute"
)

// errBrokenPipeline is why a pipeline takes no more calls.
var errBrokenPipeline = errors.New("not sent: the pipeline's connection was lost; start another pipeline")

// A pin ties calls to one connection. It is guarded by the session's lock.
type pin struct{ epoch int64 }

// A Pipeline sends calls one after the other without waiting for replies, and
// hands back a Future for each. The ensemble applies its writes in the order of
// the calls. When the connection is lost, every unanswered call fails and so does
// every later one, so a write is never applied where an earlier one of the same
// pipeline was lost. Nothing is retried. Start another pipeline then.
//
// The context of a call bounds the wait for room (Options.MaxOutstanding); once
// the method has returned without a failed Future, the call is on its way
// whatever happens to the context. Calls of one goroutine keep their order.
type Pipeline struct {
	c   *Client
	pin *pin
}

// Pipeline starts a pipeline. It needs no closing.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c, new(pin)} }

// A Future is the eventual outcome of a pipelined call. It may be copied
// and waited for by several goroutines.
type Future[T any] struct {
	k    *call
	take func(*Client, *call) (T, error)
	c    *Client
}

// Done returns a channel that is closed when the outcome is there.
func (f Future[T]) Done() <-chan struct{} { return f.k.done }

// Wait returns the outcome. When ctx ends first it returns ctx's error; the call
// goes on, and Wait may be called again.
func (f Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	select {
	case <-f.k.done:
	default:
		select {
		case <-f.k.done:
		case <-ctx.Done():
			return none, cancelError(ctx, f.k, "", true, "no reply yet; the call goes on")
		}
	}
	if f.k.err != nil {
		return none, f.k.err
	}
	return f.take(f.c, f.k)
}

// start submits k, or makes a future that has failed already.
func start[T any](ctx context.Context, p *Pipeline, k *call, err error, take func(*Client,
	*call) (T, error)) Future[T] {
	if k == nil {
		k = new(call)
	}
	// A call handed to a Future is never recycled.
	k.done, k.shared, k.pin = make(chan struct{}), true, p.pin
	if err == nil {
		p.c.s.observe(ctx, k)
		if err = p.c.s.submit(ctx, k); err != nil {
			p.c.s.ended(k, false, err)
		}
	}
	if err != nil {
		k.err = err
		close(k.done)
	}
	return Future[T]{k, take, p.c}
}

// A Node is a znode's data and metadata.
type Node struct {
	Data []byte
	Stat Stat
}

// A Listing is the names of a znode's children and its metadata.
type Listing struct {
	Children []string
	Stat     Stat
}

// A Created is a new znode's path and metadata.
type Created struct {
	Path string
	Stat Stat
}

// Create is Client.CreateStat.
func (p *Pipeline) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) Future[Created] {
	k, err := p.c.createCall(opOfMode(mode), path, data, mode, acl, 0)
	return start(ctx, p, k, err, func(c *Client, k *call) (Created, error) {
		return Created{stripRoot(c.root, k.res.path), k.res.stat}, nil
	})
}

// Delete is Client.Delete.
func (p *Pipeline) Delete(ctx context.Context, path string, version int32) Future[struct{}] {
	k, err := p.c.deleteCall(path, version)
	return start(ctx, p, k, err, func(*Client, *call) (struct{}, error) { return struct{}{}, nil })
}

// Set is Client.Set.
func (p *Pipeline) Set(ctx context.Context, path string, data []byte, version int32) Future[Stat] {
	k, err := p.c.setCall(path, data, version)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Stat, error) { return k.res.stat, nil })
}

// Get is Client.Get.
func (p *Pipeline) Get(ctx context.Context, path string) Future[Node] {
	k, err := p.c.readCall(jute.OpGetData, path, nil)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Node, error) { return Node{k.res.data, k.res.stat}, nil })
}

// Exists is Client.Exists, except that a missing znode's Future fails with
// ErrNoNode.
func (p *Pipeline) Exists(ctx context.Context, path string) Future[Stat] {
	k, err := p.c.readCall(jute.OpExists, path, nil)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Stat, error) { return k.res.stat, nil })
}

// Children is Client.Children.
func (p *Pipeline) Children(ctx context.Context, path string) Future[Listing] {
	k, err := p.c.readCall(jute.OpGetChildren2, path, nil)
	return start(ctx, p, k, err,
		func(_ *Client, k *call) (Listing, error) { return Listing{k.res.names, k.res.stat}, nil })
}

// Sync is Client.Sync: a Get that follows in the pipeline sees every write
// acknowledged before.
func (p *Pipeline) Sync(ctx context.Context, path string) Future[struct{}] {
	k, err := p.c.pathCall(jute.OpSync, path)
	return start(ctx, p, k, err, func(*Client, *call) (struct{}, error) { return struct{}{}, nil })
}

// Multi is Client.Multi.
func (p *Pipeline) Multi(ctx context.Context, ops ...MultiOp) Future[[]MultiResult] {
	k, err := p.c.multiCall(jute.OpMulti, ops)
	return start(ctx, p, k, err, multiTaken)
}

// MultiRead is Client.MultiRead.
func (p *Pipeline) MultiRead(ctx context.Context, ops ...MultiOp) Future[[]MultiResult] {
	k, err := p.c.multiCall(jute.OpMultiRead, ops)
	return start(ctx, p, k, err, multiTaken)
}

func multiTaken(c *Client, k *call) ([]MultiResult, error) { return c.multiOf(k), nil }
