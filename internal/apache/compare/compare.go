package compare

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Source is one of the two trees.
type Source interface {
	// All iterates over all znodes in the order of comparePaths. After an error it stops.
	All(ctx context.Context) iter.Seq2[*Znode, error]
	// Read reads one znode again; it returns nil if there is none.
	Read(ctx context.Context, path string) (*Znode, error)
	// Sync makes later Reads show the state at the time of the call, or a newer one. The error is ErrCopy if there is no
	// leader to ask.
	Sync(ctx context.Context) error
	// Zxid returns a zxid: no earlier Read has shown a later state, and no later Read shows an earlier one.
	Zxid(ctx context.Context) (int64, error)
	// Reach waits, at most for patience, until Reads show the state at a zxid or a later one. It returns what Zxid then
	// returns.
	Reach(ctx context.Context, zxid int64, patience time.Duration) (int64, error)
	// Files reports whether the tree is that of files.
	Files() bool
}

// ErrCopy says that a tree is a copy of another one, and may be behind it: files, or those that a follower serves.
var ErrCopy = errors.New("it is a copy, and can't ask a leader how far behind it is")

// Options say how to compare.
type Options struct {
	Ignored map[string]bool // as ParseIgnored returns them
	// Tell is called for each path that differs or can't be compared, roughly in the order of the paths.
	Tell func(*Difference) error
	// Progress, if not nil, is called for each znode.
	Progress func(znodes int)
	// Patience is how long a differing znode is observed before it is reported as different; one that changes meanwhile
	// is reported as changing.
	Patience time.Duration
}

// A Verdict classifies a difference.
type Verdict string

// The verdicts.
const (
	OnlyA      Verdict = "only in A"
	OnlyB      Verdict = "only in B"
	Differs    Verdict = "differs"
	Changing   Verdict = "changing"   // it kept changing while it was compared
	Newer      Verdict = "newer"      // it was changed after the state that the copy has
	Unreadable Verdict = "unreadable" // a server doesn't let it be read; see subtree.Unreadable
)

// A Difference is one path at which the trees differ.
type Difference struct {
	Path    string
	Verdict Verdict
	Fields  []Field // for Differs
	Err     error   // of Unreadable
}

// Counts say what was found.
type Counts struct {
	Compared, Equal, Different, Changing, Newer, Unreadable int

	HiddenACLs int // ACLs that a server hides in part; they aren't compared
}

// configPath is the znode that holds each ensemble's own membership.
const configPath = "/zookeeper/config"

// suspectsMax is how many differing paths are collected before they are read again.
const suspectsMax = 256

// comparison is one run.
type comparison struct {
	Options
	a, b     Source
	suspects []*suspect
	counts   Counts

	order order // of the last two; see again
	stuck bool  // the copy doesn't go on
}

// Trees compares two trees.
func Trees(ctx context.Context, a, b Source, o Options) (Counts, error) {
	c := &comparison{Options: o, a: a, b: b}
	err := c.walk(ctx)
	if err == nil {
		err = c.settle(ctx)
	}
	return c.counts, err
}

func (c *comparison) walk(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left, stopLeft := iter.Pull2(c.a.All(ctx))
	defer stopLeft()
	right, stopRight := iter.Pull2(c.b.All(ctx))
	defer stopRight()
	a, errA, _ := left()
	b, errB, _ := right()
	for {
		switch {
		case errA != nil:
			return fmt.Errorf("read A: %w", errA)
		case errB != nil:
			return fmt.Errorf("read B: %w", errB)
		case a == nil && b == nil:
			return nil
		}
		oneA, oneB := a, b
		switch order := orderOf(a, b); {
		case order < 0:
			oneB = nil
		case order > 0:
			oneA = nil
		}
		if err := c.one(ctx, oneA, oneB); err != nil {
			return err
		}
		if oneA != nil {
			a, errA, _ = left()
		}
		if oneB != nil {
			b, errB, _ = right()
		}
	}
}

// orderOf orders two walks by path; a nil znode comes after all others.
func orderOf(a, b *Znode) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return comparePaths(a.Path, b.Path)
}

// one compares the znodes of both sides at a path. One of them may be nil.
func (c *comparison) one(ctx context.Context, a, b *Znode) error {
	s := &suspect{a: reading{znode: a}, b: reading{znode: b}}
	if s.path = pathOf(a, b); s.path == configPath {
		return nil
	}
	c.counts.Compared++
	if c.Progress != nil {
		c.Progress(c.counts.Compared)
	}
	if a != nil && b != nil && (hidden(a.ACL) || hidden(b.ACL)) {
		c.counts.HiddenACLs++
	}
	if c.judge(s) == nil {
		c.counts.Equal++
		return nil
	}
	if c.suspects = append(c.suspects, s); len(c.suspects) < suspectsMax {
		return nil
	}
	return c.settle(ctx)
}

// A suspect is a path at which the sides differ, perhaps only because they were read at different times.
type suspect struct {
	path    string
	a, b    reading // the last ones
	changed bool    // since it was first read again
	newer   bool    // than the state that the copy has
}

// pathOf returns the path of two znodes, one of which may be nil.
func pathOf(a, b *Znode) string {
	if a != nil {
		return a.Path
	}
	return b.Path
}

// judge returns how two znodes differ, nil if they are equal.
func (c *comparison) judge(s *suspect) *Difference {
	a, b := s.a.znode, s.b.znode
	switch {
	case a == nil && b == nil:
		return nil
	case a != nil && a.Err != nil:
		return &Difference{Path: s.path, Verdict: Unreadable, Err: a.Err}
	case b != nil && b.Err != nil:
		return &Difference{Path: s.path, Verdict: Unreadable, Err: b.Err}
	case b == nil:
		return &Difference{Path: s.path, Verdict: OnlyA}
	case a == nil:
		return &Difference{Path: s.path, Verdict: OnlyB}
	}
	if fields := differing(a, b, c.Ignored); fields != nil {
		return &Difference{Path: s.path, Verdict: Differs, Fields: fields}
	}
	return nil
}
