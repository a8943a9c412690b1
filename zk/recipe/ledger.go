package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Ledger commits transactions exactly once, even when the connection is lost before the reply. A plain Multi can then
// only report that it may have been applied; a Ledger finds out.
//
// It has an ephemeral znode of its own. It adds to each transaction a change of this znode, conditional on its version,
// so the version tells how many transactions have been applied. A commit costs one request, as a Multi does; only the
// first, and one whose reply was lost, cost more. Several goroutines may use a Ledger; their commits run one after
// another. Use several Ledgers to commit in parallel.
//
// While the connection is lost, a commit waits. If ctx or the session ends, or another client deletes the ledger's
// znode, before the outcome of a lost reply is known, zk.MaybeApplied holds for the error. If another client deletes
// the znode at another time, the ledger creates a new one, and the commit goes on.
type Ledger struct {
	c   *zk.Client
	dir string
	opt Options

	turn    chan struct{} // holds a token while no commit runs
	path    string        // of the znode, "" before the first commit
	version int32         // of its data
	unsure  bool          // the outcome of a commit is unknown
}

// NewLedger returns a ledger whose znode is a child of dir. The first Commit creates it, and dir if it is missing.
// NewLedger sends no request.
func NewLedger(c *zk.Client, dir string, opt Options) *Ledger {
	l := &Ledger{c: c, dir: dir, opt: opt, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// Commit applies all operations or none. They are those of zk.Client.Multi. If one is refused, err wraps a
// *zk.MultiError that names it by its index in ops, and nothing was applied. If a reply was lost and the operations
// turn out to be applied, results and err are nil, since the results were lost with the reply.
func (l *Ledger) Commit(ctx context.Context, ops ...zk.MultiOp) ([]zk.MultiResult, error) {
	return l.commitOrUndo(ctx, nil, ops...)
}

// commitOrUndo is Commit for operations that must not stay once ctx has ended. If they turn out to be applied
// afterwards, undo is called in the background with the zxid of their transaction.
func (l *Ledger) commitOrUndo(ctx context.Context, undo func(ctx context.Context, zxid int64),
	ops ...zk.MultiOp) ([]zk.MultiResult, error) {
	if !l.take(ctx) {
		return nil, fmt.Errorf("recipe: commit: %w", ctx.Err())
	}
	results, err := l.commit(ctx, ops)
	if !l.unsure || undo == nil {
		l.turn <- struct{}{}
		return results, err
	}
	go func() {
		lasting := context.WithoutCancel(ctx)
		zxid, settled := l.outcome(lasting)
		l.unsure = !settled
		l.turn <- struct{}{}
		if zxid != 0 {
			undo(lasting, zxid)
		}
	}()
	return results, err
}

// take waits for the turn until ctx ends. It takes a free turn even if ctx has ended.
func (l *Ledger) take(ctx context.Context) bool {
	select {
	case <-l.turn:
		return true
	default:
	}
	select {
	case <-l.turn:
		return true
	case <-ctx.Done():
		return false
	}
}

// commit is Commit for a caller that has the turn.
func (l *Ledger) commit(ctx context.Context, ops []zk.MultiOp) ([]zk.MultiResult, error) {
	for lost := 0; ; {
		if err := l.settle(ctx); err != nil {
			return nil, err
		}
		all := append([]zk.MultiOp{zk.SetOp(l.path, nil, l.version)}, ops...)
		results, err := l.c.Multi(ctx, all...)
		if err == nil {
			l.version++
			return results[1:], nil
		}
		switch failed, ok := errors.AsType[*zk.MultiError](err); {
		case ok && failed.Index == 0:
			// Nothing was applied. If another client has deleted or changed the znode, a new one replaces it. If the
			// server refuses to change it, it would refuse to change a new one too.
			mine := l.path
			l.path = ""
			remove(ctx, l.c, mine)
			switch lost++; {
			case failed.Code != zk.ErrNoNode && failed.Code != zk.ErrBadVersion:
				return nil, fmt.Errorf("recipe: commit: change the ledger's znode %s, which Options.ACL must permit: %w", mine,
					failed.Code)
			case lost > ledgerLossesMax:
				return nil, fmt.Errorf("recipe: commit: %w: the last was %s", errLedgerTaken, mine)
			}
		case ok:
			failed.Index--
			return nil, err
		case zk.MaybeApplied(err):
			zxid, settled := l.outcome(ctx)
			if !settled {
				l.unsure = true
				return nil, err
			}
			if zxid != 0 {
				return nil, nil
			}
		case !again(ctx, err):
			return nil, err
		}
	}
}

// ledgerLossesMax bounds how many znodes of a ledger other clients may delete or change during one commit.
const ledgerLossesMax = 3

// errLedgerTaken says that nothing was applied because other clients interfere.
var errLedgerTaken = errors.New("others delete or change the ledger's znodes as soon as they are made")

// settle makes sure that the znode exists and its version is known.
func (l *Ledger) settle(ctx context.Context) error {
	if l.unsure {
		if _, settled := l.outcome(ctx); !settled {
			if ctx.Err() != nil {
				return fmt.Errorf("recipe: commit: %w", ctx.Err())
			}
			l.path = "" // the znode is gone, or the session has ended
		}
		l.unsure = false
	}
	if l.path != "" {
		return nil
	}
	path, _, err := createProtected(ctx, l.c, l.dir, "ledger-", l.opt)
	if err == nil {
		l.path, l.version = path, 0
	}
	return err
}

// outcome finds out whether the last commit was applied, and returns its zxid, 0 if it wasn't applied. settled is false
// if the outcome can't be found out.
func (l *Ledger) outcome(ctx context.Context) (zxid int64, settled bool) {
	stat, ok, err := look(ctx, l.c, l.path)
	if err != nil || !ok {
		return 0, false
	}
	if stat.Version != l.version {
		l.version, zxid = stat.Version, stat.Mzxid
	}
	return zxid, true
}

// Close deletes the ledger's znode, as the end of the session does. It first waits for a Commit that is running. If ctx
// ends, it fails, and a deletion that has begun continues in the background. If the ensemble refuses the deletion, the
// ledger keeps its znode, and Close may be called again. So may Commit, in any case.
func (l *Ledger) Close(ctx context.Context) error {
	if !l.take(ctx) {
		return fmt.Errorf("recipe: close ledger: %w", ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	if l.path == "" {
		return nil
	}
	err := remove(ctx, l.c, l.path)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	if err == nil || ctx.Err() != nil {
		l.path, l.unsure = "", false
	}
	return err
}

// ledgerBeside returns the ledger of the recipe at path. Its directory is next to path, so that no recipe lists it.
func ledgerBeside(c *zk.Client, path string, opt Options) *Ledger {
	return NewLedger(c, path+"-ledgers", Options{ACL: opt.ACL})
}
