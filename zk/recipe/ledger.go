package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Ledger commits transactions exactly once, even when the connection is lost
// before the reply: where a plain Multi can only say that it may have been
// applied, a Ledger finds out.
//
// It keeps an ephemeral znode of its own, and adds to each transaction a change of
// it that is conditional on its version. The version then tells how many have
// been applied. So a commit costs one request, as a Multi does, and two only after
// a lost reply. Commits through one Ledger go one after the other; for more, use
// several.
//
// While the connection is lost a commit waits. When the session expires before
// the outcome is known, nobody can tell any more: the error satisfies
// zk.MaybeApplied.
type Ledger struct {
	c   *zk.Client
	dir string
	opt Options

	turn    chan struct{} // holds a token while nobody commits
	path    string        // of the znode, "" before the first commit
	version int32         // of its data
	unsure  bool          // a commit was left with its outcome unknown
}

// NewLedger returns a ledger that keeps its znode in dir. Nothing is created yet.
func NewLedger(c *zk.Client, dir string, opt Options) *Ledger {
	l := &Ledger{c: c, dir: dir, opt: opt, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// Commit applies all operations or none. If one is refused, err wraps a
// *zk.MultiError that names it, and nothing was applied. If a reply was lost and
// the operations turn out to be applied, results are nil and err is nil: what
// they were is lost.
func (l *Ledger) Commit(ctx context.Context, ops ...zk.MultiOp) ([]zk.MultiResult, error) {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("recipe: commit: %w", context.Cause(ctx))
	}
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
			// Nothing was applied. If somebody has deleted or changed the znode, another
			// takes its place; if the server refuses to change it, so it would another.
			mine := l.path
			l.path = ""
			remove(ctx, l.c, mine)
			switch lost++; {
			case failed.Code != zk.ErrNoNode && failed.Code != zk.ErrBadVersion:
				return nil, fmt.Errorf("recipe: commit: change the ledger's znode %s, which Options.ACL must permit: %w", mine, failed.Code)
			case lost > ledgerLossesMax:
				return nil, fmt.Errorf("recipe: commit: %w: the last was %s", errLedgerTaken, mine)
			}
		case ok:
			failed.Index--
			return nil, err
		case zk.MaybeApplied(err):
			applied, settled := l.outcome(ctx)
			if !settled {
				l.unsure = true
				return nil, err
			}
			if applied {
				return nil, nil
			}
		case !again(ctx, err):
			return nil, err
		}
	}
}

// ledgerLossesMax bounds how many znodes of a ledger others may take away during one
// commit.
const ledgerLossesMax = 3

// errLedgerTaken says that nothing was applied since others interfere.
var errLedgerTaken = errors.New("others delete or change the ledger's znodes as soon as they are made")

// settle makes sure that there is a znode and its version is known.
func (l *Ledger) settle(ctx context.Context) error {
	if l.unsure {
		if _, settled := l.outcome(ctx); !settled {
			if ctx.Err() != nil {
				return fmt.Errorf("recipe: commit: %w", context.Cause(ctx))
			}
			l.path = "" // it is gone, or the session is
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

// outcome finds out whether the last commit was applied. The sync makes sure that
// it has been decided.
func (l *Ledger) outcome(ctx context.Context) (applied, settled bool) {
	for {
		err := l.c.Sync(ctx, l.path)
		var stat zk.Stat
		var ok bool
		if err == nil {
			stat, ok, err = l.c.Exists(ctx, l.path)
		}
		switch {
		case err != nil && again(ctx, err):
			continue
		case err != nil || !ok:
			return false, false
		}
		applied = stat.Version != l.version
		l.version = stat.Version
		return applied, true
	}
}

// Close deletes the ledger's znode, which the end of the session would delete
// too. Commit can be called again after it.
func (l *Ledger) Close(ctx context.Context) error {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("recipe: close ledger: %w", context.Cause(ctx))
	}
	path := l.path
	l.path, l.unsure = "", false
	if path == "" {
		return nil
	}
	if err := remove(ctx, l.c, path); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// ledgerBeside returns the ledger of the recipe at path. It lives beside the
// path, where it is in nobody's way.
func ledgerBeside(c *zk.Client, path string, opt Options) *Ledger {
	return NewLedger(c, path+"-ledgers", Options{ACL: opt.ACL})
}
