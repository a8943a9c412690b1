package zk

import (
	"context"
	"errors"

	"github.com/zooid-project/zooid/jute"
)

// errBrokenPipeline is the reason why calls of a pipeline fail after its connection was lost.
var errBrokenPipeline = errors.New("not sent: the pipeline's connection was lost; start another pipeline")

// A pin ties calls to one connection. The session's lock guards it.
type pin struct{ epoch int64 }

// A Pipeline sends calls one after another without waiting for replies, and returns a Future for each. The ensemble
// applies the writes in the order of the calls. If one is refused or fails at once, the later ones are still applied.
//
// If the connection is lost while any request of the client is sent and unanswered, the Pipeline has ended: its
// unanswered calls fail with ErrConnectionLoss, and so do all later ones. MaybeApplied holds for the writes that were
// sent, and Retryable for the other calls. So no write is applied after an earlier one of the same pipeline was lost.
// Nothing is retried; the program starts another pipeline.
//
// A method waits only for room (Options.MaxOutstanding), until its context ends; without a connection its call is
// queued. Once the method has returned a Future that hasn't failed, the end of the context has no effect on the call.
// Several goroutines may use a Pipeline; the calls of each keep their order. What is passed to a method may change once
// it has returned.
type Pipeline struct {
	c   *Client
	pin *pin
}

// Pipeline starts a pipeline. It doesn't need to be closed.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c, new(pin)} }

// A Future is the result of a pipelined call that may still be unanswered. It may be copied, and several goroutines may
// wait for it; they share the result and must not change it. The zero Future can't be used.
type Future[T any] struct {
	k    *call
	take func(*Client, *call) (T, error)
	c    *Client
}

// Done returns a channel that is closed when the call has ended.
func (f Future[T]) Done() <-chan struct{} { return f.k.done }

// Wait waits for the result and returns it. If ctx ends first, the error wraps ctx's, and MaybeApplied holds for a
// write; the call continues, and Wait may be called again.
func (f Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	select {
	case <-f.k.done:
	default:
		select {
		case <-f.k.done:
		case <-ctx.Done():
			return none, cancelError(ctx, f.k, "", true, "no reply yet; the call continues")
		}
	}
	if f.k.err != nil {
		return none, f.k.err
	}
	return f.take(f.c, f.k)
}

// start submits k and returns its future. If err isn't nil or submitting fails, the future has already failed.
func start[T any](ctx context.Context, p *Pipeline, k *call, err error, take func(*Client,
	*call) (T, error)) Future[T] {
	if k == nil {
		k = new(call)
	}
	// The call of a Future is never reused.
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

// Create does what Client.CreateStat does.
func (p *Pipeline) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) Future[Created] {
	k, err := p.c.createCall(opOfMode(mode), path, data, mode, acl, 0)
	return start(ctx, p, k, err, func(c *Client, k *call) (Created, error) {
		return Created{stripRoot(c.root, k.res.path), k.res.stat}, nil
	})
}

// Delete does what Client.Delete does.
func (p *Pipeline) Delete(ctx context.Context, path string, version int32) Future[struct{}] {
	k, err := p.c.deleteCall(path, version)
	return start(ctx, p, k, err, func(*Client, *call) (struct{}, error) { return struct{}{}, nil })
}

// Set does what Client.Set does.
func (p *Pipeline) Set(ctx context.Context, path string, data []byte, version int32) Future[Stat] {
	k, err := p.c.setCall(path, data, version)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Stat, error) { return k.res.stat, nil })
}

// Get does what Client.Get does.
func (p *Pipeline) Get(ctx context.Context, path string) Future[Node] {
	k, err := p.c.readCall(jute.OpGetData, path, nil)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Node, error) { return Node{k.res.data, k.res.stat}, nil })
}

// Exists does what Client.Exists does, except that the Future of a missing znode fails with ErrNoNode.
func (p *Pipeline) Exists(ctx context.Context, path string) Future[Stat] {
	k, err := p.c.readCall(jute.OpExists, path, nil)
	return start(ctx, p, k, err, func(_ *Client, k *call) (Stat, error) { return k.res.stat, nil })
}

// Children does what Client.Children does.
func (p *Pipeline) Children(ctx context.Context, path string) Future[Listing] {
	k, err := p.c.readCall(jute.OpGetChildren2, path, nil)
	return start(ctx, p, k, err,
		func(_ *Client, k *call) (Listing, error) { return Listing{k.res.names, k.res.stat}, nil })
}

// Sync does what Client.Sync does: reads that follow in the pipeline see every write acknowledged before it.
func (p *Pipeline) Sync(ctx context.Context, path string) Future[struct{}] {
	k, err := p.c.pathCall(jute.OpSync, path)
	return start(ctx, p, k, err, func(*Client, *call) (struct{}, error) { return struct{}{}, nil })
}

// Multi does what Client.Multi does.
func (p *Pipeline) Multi(ctx context.Context, ops ...MultiOp) Future[[]MultiResult] {
	k, err := p.c.multiCall(jute.OpMulti, ops)
	return start(ctx, p, k, err, multiTaken)
}

// MultiRead does what Client.MultiRead does.
func (p *Pipeline) MultiRead(ctx context.Context, ops ...MultiOp) Future[[]MultiResult] {
	k, err := p.c.multiCall(jute.OpMultiRead, ops)
	return start(ctx, p, k, err, multiTaken)
}

func multiTaken(c *Client, k *call) ([]MultiResult, error) { return c.multiOf(k), nil }
