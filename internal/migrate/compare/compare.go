package compare

import (
	"context"
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
	// Sync makes later Reads return the state at the time of the call, or a newer one.
	Sync(ctx context.Context) error
	// Fixed reports whether the tree never changes.
	Fixed() bool
}

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
	Unreadable Verdict = "unreadable" // a server doesn't allow reading it
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
	Compared, Equal, Different, Changing, Unreadable int
	HiddenACLs                                       int // ACLs that a server hides in part; they aren't compared
}

// configPath is the znode that holds each ensemble's own membership.
const configPath = "/zookeeper/config"

// suspectsMax is how many differing paths are collected before they are read again.
const suspectsMax = 256

// rounds is how often suspects are read again.
const rounds = 4

// comparison is one run.
type comparison struct {
	Options
	a, b     Source
	suspects []*suspect
	counts   Counts
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
	s := &suspect{a: a, b: b}
	if s.path() == configPath {
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
	a, b    *Znode // the last readings; nil where there is no znode
	changed bool   // since it was first read again
}

func (s *suspect) path() string {
	if s.a != nil {
		return s.a.Path
	}
	return s.b.Path
}

// judge returns how two znodes differ, nil if they are equal.
func (c *comparison) judge(s *suspect) *Difference {
	switch {
	case s.a == nil && s.b == nil:
		return nil
	case s.a != nil && s.a.Err != nil:
		return &Difference{Path: s.a.Path, Verdict: Unreadable, Err: s.a.Err}
	case s.b != nil && s.b.Err != nil:
		return &Difference{Path: s.b.Path, Verdict: Unreadable, Err: s.b.Err}
	case s.b == nil:
		return &Difference{Path: s.a.Path, Verdict: OnlyA}
	case s.a == nil:
		return &Difference{Path: s.b.Path, Verdict: OnlyB}
	}
	if fields := differing(s.a, s.b, c.Ignored); fields != nil {
		return &Difference{Path: s.a.Path, Verdict: Differs, Fields: fields}
	}
	return nil
}

// settle reads the suspects again until they are equal or have been stable for a while, and reports those that remain.
func (c *comparison) settle(ctx context.Context) error {
	pending := c.suspects
	c.suspects = nil
	paths := make([]string, len(pending))
	for i, s := range pending {
		paths[i] = s.path()
	}
	if !c.a.Fixed() || !c.b.Fixed() {
		for round := range rounds {
			if len(pending) == 0 {
				return nil
			}
			if round > 0 {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(c.Patience / (rounds - 1)):
				}
			}
			if err := c.again(ctx, pending, paths, round); err != nil {
				return err
			}
			left, leftPaths := pending[:0], paths[:0]
			for i, s := range pending {
				if c.judge(s) == nil {
					c.counts.Equal++
					continue
				}
				left, leftPaths = append(left, s), append(leftPaths, paths[i])
			}
			pending, paths = left, leftPaths
		}
	}
	for _, s := range pending {
		if err := c.tell(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) tell(s *suspect) error {
	d := c.judge(s)
	switch {
	case d.Verdict == Unreadable:
		c.counts.Unreadable++
	case s.changed:
		d.Verdict = Changing
		c.counts.Changing++
	default:
		c.counts.Different++
	}
	return c.Tell(d)
}

// again reads the suspects once more.
func (c *comparison) again(ctx context.Context, pending []*suspect, paths []string, round int) error {
	for _, side := range []Source{c.a, c.b} {
		if err := side.Sync(ctx); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
	}
	for i, s := range pending {
		a, err := c.a.Read(ctx, paths[i])
		if err != nil {
			return fmt.Errorf("read %s of A again: %w", paths[i], err)
		}
		b, err := c.b.Read(ctx, paths[i])
		if err != nil {
			return fmt.Errorf("read %s of B again: %w", paths[i], err)
		}
		if round > 0 && (!same(s.a, a) || !same(s.b, b)) {
			s.changed = true
		}
		s.a, s.b = a, b
	}
	return nil
}

// same reports whether two readings of one side are equal.
func same(before, now *Znode) bool {
	if before == nil || now == nil {
		return before == now
	}
	return before.Err == nil && now.Err == nil && differing(before, now, nil) == nil
}
