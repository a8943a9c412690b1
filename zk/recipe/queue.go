package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// itemPrefix begins the name of every item.
const itemPrefix = "queue-"

// A Queue passes items from producers to consumers in the order in which they were put. An item is put exactly once and
// taken exactly once, even if replies are lost (see Ledger).
//
// There are two ways to consume, and all consumers of a queue must use the same one:
//
//   - Take removes items before the caller works on them. If a consumer dies, the items that it has taken are lost.
//   - Claim leaves an item in the queue until Claim.Done. If the consumer's session ends first, another consumer gets
//     the item: work may be done twice, but is never lost.
//
// Its layout is that of Curator's DistributedQueue, for Take without a lockPath and for Claim with one.
//
// When the connection is lost, Put, Take and Claim wait for another. When ctx or the session ends, they fail. If
// zk.MaybeApplied holds for the error, Put may have put the items, and Take may have removed an item, which is then
// lost.
//
// Take and Claim list the whole queue with one request: Claim at each call, and Take when it has tried all items of its
// last list. The list must fit into zk.Options.MaxResponseBytes, which by default has room for two million items. On
// Apache's servers the numbers of items end at 2147483647; before that, a program must continue with another queue.
type Queue struct {
	// ClaimPath is the directory of the claims, which Curator calls the lockPath. NewQueue sets it to the queue's path
	// with "-claims" appended. A program may change it before it uses the queue, the same way for all consumers, to
	// another path than the queue's own.
	ClaimPath string

	c         *zk.Client
	path      string
	opt       Options
	ledger    *Ledger
	relisting bool // later items may sort before earlier ones, as in a priority queue

	turn    chan struct{} // holds a token while no goroutine uses the fields below
	names   []string      // items seen and not yet tried, in order
	changes *zk.Watch     // of the directory's children, set when names was read
}

// NewQueue returns the queue whose items are children of path. It sends no request.
func NewQueue(c *zk.Client, path string, opt Options) *Queue {
	q := &Queue{
		ClaimPath: path + "-claims", c: c, path: path, opt: opt, ledger: ledgerBeside(c, path, opt), turn: make(chan struct{},
			1),
	}
	q.turn <- struct{}{}
	return q
}

// Put appends the items as one unit, which goes to one consumer. All of them must fit into one znode
// (zk.Options.MaxRequestBytes). Without items, the consumer gets an empty list. A queue has no limit: Put never waits
// for consumers.
func (q *Queue) Put(ctx context.Context, items ...[]byte) error {
	return q.put(ctx, itemPrefix, items)
}

func (q *Queue) put(ctx context.Context, name string, items [][]byte) error {
	op := zk.CreateOp(join(q.path, name), encodeItems(items), zk.ModePersistentSequential, q.opt.acl())
	for tries := 1; ; tries++ {
		_, err := q.ledger.Commit(ctx, op)
		if !errors.Is(err, zk.ErrNoNode) || tries > ensureTries {
			return err
		}
		if err := q.ensure(ctx, q.path); err != nil {
			return err
		}
	}
}

// ensure creates a directory of the queue. The directory is persistent. A container would be removed when it is empty
// and created again with numbers from 0. A consumer that lags behind could then take a new item for the old one of the
// same name.
func (q *Queue) ensure(ctx context.Context, dir string) error {
	return ensureAs(ctx, q.c, dir, q.opt.acl(), zk.ModePersistent)
}

// Len returns the number of znodes in the queue, claimed ones included. The items of one Put are one znode.
func (q *Queue) Len(ctx context.Context) (int, error) {
	stat, _, err := q.c.Exists(ctx, q.path)
	return int(stat.NumChildren), err
}

// Take waits for an item until ctx or the session ends, removes it, and returns all items of its Put. Data that Put
// hasn't written, such as those of a znode made by hand, are one item.
func (q *Queue) Take(ctx context.Context) ([][]byte, error) {
	for {
		name, err := q.next(ctx, false)
		if err != nil {
			return nil, fmt.Errorf("recipe: take from %s: %w", q.path, err)
		}
		data, err := q.take(ctx, join(q.path, name))
		switch {
		case err == nil:
			return decodeItems(data), nil
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion): // another consumer was faster
			return nil, err
		}
	}
}

// take reads and deletes the item at path in one step.
func (q *Queue) take(ctx context.Context, path string) ([]byte, error) {
	for {
		data, stat, err := q.c.Get(ctx, path)
		switch {
		case err != nil && again(ctx, err):
			continue
		case err != nil:
			return nil, err
		}
		_, err = q.ledger.Commit(ctx, zk.DeleteOp(path, stat.Version))
		return data, err
	}
}

// A Claim is an item that no other consumer gets before Done, Return or the end of the session. When the session has
// ended, Done and Return report it; to notice it earlier, use zk.Client.States.
type Claim struct {
	Items [][]byte // all items of one Put

	q          *Queue
	path, lock string
	czxid      int64 // of lock
	version    int32 // of the item
}

// Claim waits for an unclaimed item until ctx or the session ends, and claims it. It claims the first one in order.
func (q *Queue) Claim(ctx context.Context) (*Claim, error) {
	for {
		name, err := q.next(ctx, true)
		if err != nil {
			return nil, fmt.Errorf("recipe: claim from %s: %w", q.path, err)
		}
		claim, err := q.claim(ctx, name)
		if err != nil || claim != nil {
			return claim, err
		}
	}
}

// claim claims one item. It returns nil without an error if another consumer was faster.
func (q *Queue) claim(ctx context.Context, name string) (*Claim, error) {
	k := &Claim{q: q, path: join(q.path, name), lock: join(q.ClaimPath, name)}
	for tries := 1; ; tries++ {
		made, err := q.ledger.commitOrUndo(ctx, k.undo, zk.CheckOp(k.path, zk.AnyVersion),
			zk.CreateOp(k.lock, q.opt.Data, zk.ModeEphemeral, q.opt.acl()))
		failed, refused := errors.AsType[*zk.MultiError](err)
		switch {
		case err == nil:
			if len(made) == 2 {
				k.czxid = made[1].Stat.Czxid // 0 from servers that don't send it
			}
			if err := k.read(ctx); err != nil {
				behind(ctx, k.lock, k.giveBack)
				return nil, err
			}
			return k, nil
		case refused && failed.Code == zk.ErrNoNode && failed.Index == 1 && tries <= ensureTries:
			if err := q.ensure(ctx, q.ClaimPath); err != nil {
				return nil, err
			}
		case refused && (failed.Code == zk.ErrNoNode || failed.Code == zk.ErrNodeExists):
			return nil, nil
		default:
			return nil, err
		}
	}
}

// read reads the claimed item and, if unknown, the czxid of the claim's znode.
func (k *Claim) read(ctx context.Context) error {
	if k.czxid == 0 {
		lock, ok, err := look(ctx, k.q.c, k.lock)
		switch {
		case err != nil:
			return err
		case !ok || lock.EphemeralOwner != k.q.c.Session().ID:
			return k.lost("claim")
		}
		k.czxid = lock.Czxid
	}
	data, stat, err := k.q.get(ctx, k.path)
	k.Items, k.version = decodeItems(data), stat.Version
	return err
}

func (q *Queue) get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	for {
		data, stat, err := q.c.Get(ctx, path)
		if err == nil || !again(ctx, err) {
			return data, stat, err
		}
	}
}

// Done removes the item from the queue when the work on it is finished. If the claim is gone, because the session has
// expired or another client has deleted it, Done fails with zk.ErrNoNode or the session's error and changes nothing:
// another consumer has the item or will get it. If zk.MaybeApplied holds for an error, the item may have been removed;
// another Done then fails with zk.ErrNoNode. After other errors Done may be called again.
func (k *Claim) Done(ctx context.Context) error {
	if err := k.check(ctx, "finish"); err != nil {
		return err
	}
	_, err := k.q.ledger.Commit(ctx, zk.DeleteOp(k.path, k.version), zk.DeleteOp(k.lock, zk.AnyVersion))
	return err
}

// Return makes the item available again, at its old place, to all consumers: also to this one's next Claim. If ctx ends
// first, Return continues in the background. If the claim is gone, Return fails with zk.ErrNoNode or the session's
// error and changes nothing.
func (k *Claim) Return(ctx context.Context) error {
	return behind(ctx, k.lock, k.giveBack)
}

// giveBack deletes the claim's znode once, even if replies are lost: a repeated deletion would delete the next
// consumer's claim, which has the same name.
func (k *Claim) giveBack(ctx context.Context) error {
	if k.czxid == 0 { // the znode was created, but its czxid is unknown
		lock, ok, err := look(ctx, k.q.c, k.lock)
		if err != nil || !ok || lock.EphemeralOwner != k.q.c.Session().ID {
			return err
		}
		k.czxid = lock.Czxid
	}
	return deleteIncarnation(ctx, k.q.c, k.lock, k.czxid)
}

// undo deletes the claim's znode if the transaction zxid created it.
func (k *Claim) undo(ctx context.Context, zxid int64) {
	deleteIncarnation(ctx, k.q.c, k.lock, zxid) // it goes with the session at the latest
}

// check fails if the claim's znode isn't the one created for it.
func (k *Claim) check(ctx context.Context, doing string) error {
	lock, ok, err := look(ctx, k.q.c, k.lock)
	switch {
	case err != nil:
		return err
	case !ok || lock.Czxid != k.czxid:
		return k.lost(doing)
	}
	return nil
}

// lost returns the error that says that the claim is gone.
func (k *Claim) lost(doing string) error {
	return fmt.Errorf("recipe: %s %s: somebody deleted the claim %s: %w", doing, k.path, k.lock, zk.ErrNoNode)
}

// errClaimPath says that ClaimPath can't work.
var errClaimPath = errors.New("ClaimPath is the queue's own path; the claims need a directory of their own")

// next returns the name of the next item to try, and waits until there is one. If claims is set, it skips claimed
// items.
func (q *Queue) next(ctx context.Context, claims bool) (string, error) {
	select {
	case <-q.turn:
		defer func() { q.turn <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if claims && q.ClaimPath == q.path { // each item would count as its own claim
		return "", errClaimPath
	}
	switch {
	case claims:
		q.names = nil // an earlier item may have been returned
	case q.relisting && q.changes != nil:
		if _, fired := q.changes.Try(); fired {
			q.names = nil
		}
	}
	for len(q.names) == 0 {
		if err := q.list(ctx, claims); err != nil {
			return "", err
		}
	}
	name := q.names[0]
	q.names = q.names[1:]
	return name, nil
}

// list fills q.names, or waits until listing again may help.
func (q *Queue) list(ctx context.Context, claims bool) error {
	if q.changes != nil {
		q.changes.Close()
		q.changes = nil
	}
	var claimed []string
	var released *zk.Watch
	if claims {
		var err error
		if claimed, released, err = q.watchNames(ctx, q.ClaimPath); err != nil {
			return err
		}
		defer released.Close()
	}
	names, changes, err := q.watchNames(ctx, q.path)
	if err != nil {
		return err
	}
	q.changes = changes
	taken := make(map[string]bool, len(claimed))
	for _, name := range claimed {
		taken[name] = true
	}
	q.names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, itemPrefix) || taken[name]
	})
	slices.Sort(q.names)
	if len(q.names) > 0 {
		return nil
	}
	return eitherFires(ctx, changes, released)
}

// watchNames lists dir and sets a watch on it. It creates dir if it is missing.
func (q *Queue) watchNames(ctx context.Context, dir string) ([]string, *zk.Watch, error) {
	for tries := 1; ; tries++ {
		names, _, w, err := q.c.ChildrenW(ctx, dir)
		switch {
		case err == nil:
			return names, w, nil
		case errors.Is(err, zk.ErrNoNode) && tries <= ensureTries:
			if err := q.ensure(ctx, dir); err != nil {
				return nil, nil, err
			}
		case !again(ctx, err):
			return nil, nil, err
		}
	}
}

// eitherFires waits until a or b has fired or ended. b may be nil.
func eitherFires(ctx context.Context, a, b *zk.Watch) error {
	if b == nil {
		_, err := a.Next(ctx)
		return err
	}
	select {
	case <-a.Ready():
		_, err := a.Next(ctx)
		return err
	case <-b.Ready():
		_, err := b.Next(ctx)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close deletes the znode of the queue's Ledger (see Ledger.Close). If another goroutine waits in Take or Claim, Close
// waits for it, until ctx ends. The items and this client's claims stay, and the queue and the claims may be used
// again.
func (q *Queue) Close(ctx context.Context) error {
	select {
	case <-q.turn:
	case <-ctx.Done():
		return fmt.Errorf("recipe: close %s: %w", q.path, ctx.Err())
	}
	if q.changes != nil {
		q.changes.Close()
		q.changes = nil
	}
	q.names = nil
	q.turn <- struct{}{}
	return q.ledger.Close(ctx)
}

// A PriorityQueue is a Queue whose items are ordered by priority, the lowest number first, and within one priority in
// the order in which they were put. Its layout is that of Curator's DistributedPriorityQueue. After each change, even
// by a Take, every consumer lists the whole queue again, so it is meant for short queues. The embedded Queue's own Put
// must not be used: its items have no priority.
type PriorityQueue struct{ Queue }

// NewPriorityQueue returns the queue whose items are children of path. It sends no request.
func NewPriorityQueue(c *zk.Client, path string, opt Options) *PriorityQueue {
	q := &PriorityQueue{*NewQueue(c, path, opt)}
	q.relisting = true
	return q
}

// Put adds the items with a priority as one unit, which goes to one consumer.
func (q *PriorityQueue) Put(ctx context.Context, priority int32, items ...[]byte) error {
	return q.put(ctx, itemPrefix+priorityText(priority), items)
}
