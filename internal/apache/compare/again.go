package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
)

// # How a difference is known
//
// Two equal readings of one side prove that the znode was unchanged between them: each write changes its mzxid, pzxid
// or aversion. If there is no znode at either reading, the pzxid of its parent, or of the nearest existing ancestor,
// proves that there was none in between: otherwise one that was created and deleted in between would be missed.
//
// Servers of two ensembles are read again several times, each after a sync. If on each side the first and the last
// readings are equal, and the two sides differ, there was a time at which both had the reported values.
//
// A copy of a running ensemble is behind it by an unknown time, but tells its zxid. So the ensemble is read first, then
// the copy once it has reached the zxid that the ensemble was at, then the ensemble again once it has reached the zxid
// that the copy was at. If both readings of the ensemble are equal, the znode was like that at the zxid at which the
// copy was read, so a difference from the copy is real. If the copy doesn't get that far, the ensemble's later changes
// count as newer, not as different; zxids and the parent's pzxid show which those are. A change of an ACL leaves no
// zxid, and counts as newer.

// An order says how the sides are read again.
type order int

const (
	unknown  order = iota
	never          // both are files
	together       // both have a leader to ask
	aFirst         // B is a copy
	bFirst         // A is a copy, and B is none
)

// findOrder finds out how the sides are to be read again.
func (c *comparison) findOrder(ctx context.Context) error {
	copied := [2]bool{}
	for i, side := range []Source{c.a, c.b} {
		err := side.Sync(ctx)
		if copied[i] = errors.Is(err, ErrCopy); err != nil && !copied[i] {
			return fmt.Errorf("sync: %w", err)
		}
	}
	switch {
	case c.a.Files() && c.b.Files():
		c.order = never
	case copied == [2]bool{}:
		c.order = together
	case copied[1] && !c.a.Files():
		c.order = aFirst
	default:
		c.order = bFirst
	}
	return nil
}

// rounds is how often suspects are read again.
const rounds = 4

// settle reads the suspects again until they are equal or known to differ, and reports those that remain.
func (c *comparison) settle(ctx context.Context) error {
	pending := c.suspects
	c.suspects = nil
	if c.order == unknown && len(pending) > 0 {
		if err := c.findOrder(ctx); err != nil {
			return err
		}
	}
	var known []*suspect
	for round := 0; round < rounds && c.order != never && len(pending) > 0; round++ {
		if round > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.Patience / (rounds - 1)):
			}
		}
		var err error
		switch c.order {
		case together:
			err = c.again(ctx, pending, round)
		case aFirst:
			err = c.againOfCopy(ctx, c.a, c.b, pending)
		default:
			err = c.againOfCopy(ctx, c.b, c.a, pending)
		}
		if err != nil {
			return err
		}
		left := pending[:0]
		for _, s := range pending {
			switch {
			case c.judge(s) == nil:
				c.counts.Equal++
			case c.order != together && !s.changed:
				known = append(known, s)
			default:
				left = append(left, s)
			}
		}
		pending = left
	}
	for _, s := range append(known, pending...) {
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
	case s.newer:
		d.Verdict = Newer
		c.counts.Newer++
	default:
		c.counts.Different++
	}
	return c.Tell(d)
}

// again reads the suspects of two ensembles once more.
func (c *comparison) again(ctx context.Context, pending []*suspect, round int) error {
	for _, side := range []Source{c.a, c.b} {
		if err := side.Sync(ctx); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
	}
	for _, s := range pending {
		a, err := read(ctx, c.a, s.path)
		if err != nil {
			return err
		}
		b, err := read(ctx, c.b, s.path)
		if err != nil {
			return err
		}
		if round > 0 && (!same(s.a, a) || !same(s.b, b)) {
			s.changed = true
		}
		s.a, s.b = a, b
	}
	return nil
}

// againOfCopy reads the suspects of an ensemble and of its copy once more.
func (c *comparison) againOfCopy(ctx context.Context, ensemble, copied Source, pending []*suspect) error {
	if err := ensemble.Sync(ctx); err != nil && !errors.Is(err, ErrCopy) {
		return fmt.Errorf("sync: %w", err)
	}
	first, at, err := readings(ctx, ensemble, pending)
	if err != nil {
		return err
	}
	reached, err := c.reach(ctx, copied, at)
	if err != nil {
		return fmt.Errorf("read the copy at zxid %#x: %w", uint64(at), err)
	}
	seen, behind, err := readings(ctx, copied, pending)
	if err != nil {
		return err
	}
	// An ensemble has everything that its copy has. If Sync can't ask a leader, as for a copy that is compared with
	// another copy, the comparison waits for it.
	err = ensemble.Sync(ctx)
	if errors.Is(err, ErrCopy) {
		_, err = ensemble.Reach(ctx, behind, c.Patience)
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	last, _, err := readings(ctx, ensemble, pending)
	if err != nil {
		return err
	}
	for i, s := range pending {
		if s.a, s.b = last[i], seen[i]; ensemble == c.b {
			s.a, s.b = seen[i], last[i]
		}
		s.changed = !same(first[i], last[i])
		s.newer = reached < at && newer(last[i], seen[i], reached)
	}
	return nil
}

// reach waits until the copy has reached a zxid, at most for c.Patience. Once a copy has made no progress in that time,
// reach no longer waits for it.
func (c *comparison) reach(ctx context.Context, copied Source, zxid int64) (reached int64, err error) {
	before, err := copied.Zxid(ctx)
	if err != nil || c.stuck {
		return before, err
	}
	reached, err = copied.Reach(ctx, zxid, c.Patience)
	c.stuck = reached < zxid && reached == before
	return reached, err
}

// readings reads the suspects of one side, and returns a zxid that none of them is later than.
func readings(ctx context.Context, side Source, pending []*suspect) (all []reading, zxid int64, err error) {
	for _, s := range pending {
		r, err := read(ctx, side, s.path)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, r)
	}
	zxid, err = side.Zxid(ctx)
	return all, zxid, err
}

// A reading is what one side had at a path.
type reading struct {
	znode *Znode // nil for none
	above *Znode // if the znode doesn't exist, its nearest existing ancestor; nil if there is none either
}

func read(ctx context.Context, side Source, path string) (r reading, err error) {
	if r.znode, err = side.Read(ctx, path); err != nil {
		return r, fmt.Errorf("read %s again: %w", path, err)
	}
	for at := path; r.znode == nil && r.above == nil && at != "/"; {
		parent, _ := files.SplitPath(at)
		at = named(parent)
		if r.above, err = side.Read(ctx, at); err != nil {
			return r, fmt.Errorf("read %s again: %w", at, err)
		}
	}
	return r, nil
}

// same reports whether a path was the same on one side between two readings.
func same(before, now reading) bool {
	if before.znode != nil && now.znode != nil {
		return before.znode.Err == nil && now.znode.Err == nil && differing(before.znode, now.znode, nil) == nil
	}
	a, b := before.above, now.above
	switch {
	case before.znode != nil || now.znode != nil:
		return false
	case a == nil || b == nil: // a chroot that isn't there has no ancestor that tells more
		return a == b
	}
	return a.Err == nil && b.Err == nil && a.Path == b.Path && a.Stat.Czxid == b.Stat.Czxid && a.Stat.Pzxid == b.Stat.Pzxid
}

// newer reports whether what an ensemble has may be newer than the zxid of its copy.
func newer(now, copied reading, zxid int64) bool {
	z := now.znode
	switch {
	case z == nil: // without an ancestor, it is a chroot
		return now.above == nil || now.above.Err != nil || now.above.Stat.Pzxid > zxid
	case z.Err != nil || max(z.Stat.Czxid, z.Stat.Mzxid, z.Stat.Pzxid) > zxid:
		return true
	}
	return copied.znode != nil &&
		differing(z, copied.znode, map[string]bool{"acl": true, "aversion": true}) == nil
}
