package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// A line is a directory in which participants queue. Each has an ephemeral sequential znode. The one with the lowest
// number is first. Each of the others watches only the znode that it waits for, so a release wakes one waiter and not
// all.
type line struct {
	c      *zk.Client
	dir    string
	name   string // of this participant's znodes, before the digits
	shared bool   // it can be first together with other shared participants
	marks  marks
	opt    Options
	held   []string // names of znodes that the caller holds elsewhere; it must not wait for them
}

// marks are the endings of names before the digits. They distinguish the znodes of a line from others in the directory,
// and the kinds of participants.
type marks struct{ exclusive, shared []string }

// digits is the length of the number a server appends to a sequential znode.
const digits = 10

// A participant is a znode of a line.
type participant struct {
	name   string
	number int64
	shared bool
}

// parse parses the name of a participant, and reports whether it is one. Other names are ignored, so that a foreign
// znode in the directory never blocks a lock.
func (m marks) parse(name string) (participant, bool) {
	stem, number, ok := cutNumber(name)
	if !ok {
		return participant{}, false
	}
	if kind, ok := m.kindOf(stem); ok {
		return participant{name, number, kind}, true
	}
	// A negative number has its sign before its ten digits.
	if unsigned, signed := strings.CutSuffix(stem, "-"); signed && number > 0 {
		if kind, ok := m.kindOf(unsigned); ok {
			return participant{name, -number, kind}, true
		}
	}
	return participant{}, false
}

// cutNumber splits name before its last ten characters, which must be a number.
func cutNumber(name string) (stem string, number int64, ok bool) {
	if len(name) < digits {
		return "", 0, false
	}
	stem = name[:len(name)-digits]
	text, negative := strings.CutPrefix(name[len(stem):], "-")
	unsigned, err := strconv.ParseUint(text, 10, 63)
	if number = int64(unsigned); negative {
		number = -number
	}
	return stem, number, err == nil
}

// kindOf reports whether stem has the ending of a participant's name, and which kind it is.
func (m marks) kindOf(stem string) (shared, ok bool) {
	ends := func(mark string) bool { return strings.HasSuffix(stem, mark) }
	if slices.ContainsFunc(m.exclusive, ends) {
		return false, true
	}
	return true, slices.ContainsFunc(m.shared, ends)
}

// compareNumbers orders the numbers of two participants of one line. The result is negative if a is before b.
// ZooKeeper's counter has 32 bits. At its end, after 2147483647, it continues at -2147483648 or gives the last number
// again (errSameNumber), depending on the server. Zooid's continues at 2147483648. Participants that exist at the same
// time are never half the range apart.
func compareNumbers(a, b int64) int64 {
	const span = 1 << 32
	switch d := a - b; {
	case d < -span/2:
		return d + span
	case d > span/2:
		return d - span
	default:
		return d
	}
}

// inTheWay returns the last participant before mine that mine must wait for, "" if mine is first. It fails with
// errVanished if names doesn't have mine, and with errSameNumber.
func (l *line) inTheWay(names []string, mine string) (way string, err error) {
	me, _ := l.marks.parse(mine)
	nearest := int64(0)
	err = errVanished
	for _, name := range names {
		if name == mine {
			err = nil
			continue
		}
		p, isMark := l.marks.parse(name)
		if !isMark || compareNumbers(p.number, me.number) > 0 || l.shared && p.shared {
			continue
		}
		if p.number == me.number {
			return "", errSameNumber
		}
		if way != "" && compareNumbers(p.number, nearest) <= 0 {
			continue
		}
		way, nearest = name, p.number
	}
	return way, err
}

// errSameNumber says that another participant has this one's number. Both would count as first.
var errSameNumber = errors.New("the server numbers the znodes of this directory no further; use another one")

// errVanished says that this participant's znode is no longer in the line although the session lasts: another client
// deleted it.
var errVanished = errors.New("the znode was deleted by somebody else")

// vanished returns why the participants can't be listed: without their parent, this one's znode is gone, too.
func vanished(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errVanished
	}
	return err
}

// If another client keeps deleting the participants, each pauses before it enters again, longer each time. Otherwise
// they would enter as fast as they can.
const (
	vanishedPause    = time.Millisecond
	vanishedPauseMax = time.Second
)

// errNoParticipant says that the server gave this participant's znode a name without a number.
var errNoParticipant = errors.New("the server's name for the znode has no number, so its place in the line is unknown")

// lock enters the line and waits until it is first. If wait is false and it isn't first at once, lock returns ErrTaken.
// If the lock is not acquired, no znode stays behind.
func (l *line) lock(ctx context.Context, wait bool) (*Held, error) {
	for rest := vanishedPause; ; rest = min(2*rest, vanishedPauseMax) {
		path, czxid, err := createProtected(ctx, l.c, l.dir, l.name, l.opt)
		if err != nil {
			return nil, err
		}
		err = l.await(ctx, nameOf(path), wait)
		if err == nil {
			return hold(ctx, l.c, path, czxid), nil
		}
		if errors.Is(err, errVanished) && pause(ctx, rest) {
			continue // enter again, at the end of the line
		}
		remove(ctx, l.c, path) // it goes with the session at the latest
		return nil, fmt.Errorf("recipe: lock %s: %w", l.dir, err)
	}
}

// await waits until mine is first. A state that has mine also has every participant before it, so await may read from a
// server that lags behind.
func (l *line) await(ctx context.Context, mine string, wait bool) error {
	if _, ok := l.marks.parse(mine); !ok {
		return fmt.Errorf("%w: %s", errNoParticipant, mine)
	}
	for {
		names, _, err := l.c.Children(ctx, l.dir)
		if err != nil && again(ctx, err) {
			continue
		}
		if err != nil {
			return vanished(err)
		}
		way, err := l.inTheWay(names, mine)
		switch {
		case err != nil:
			return err
		case way == "":
			return nil
		case !wait:
			return ErrTaken
		case slices.ContainsFunc(l.held, func(name string) bool { return slices.Contains(names, name) }):
			return errTwice // each name has a UUID, so it is the same directory
		}
		if err := untilChanged(ctx, l.c, join(l.dir, way)); err != nil {
			return err
		}
	}
}

// untilChanged waits while the znode at path exists unchanged.
func untilChanged(ctx context.Context, c *zk.Client, path string) error {
	for {
		_, ok, w, err := c.ExistsW(ctx, path)
		switch {
		case err != nil && again(ctx, err):
			continue
		case err != nil:
			return err
		case ok:
			_, err = w.Next(ctx)
		}
		w.Close()
		return err
	}
}

// A Participant is a client that holds or waits for a lock, a lease or leadership, as any client can see it.
type Participant struct {
	Path  string // of its znode
	Data  []byte // its Options.Data
	Token int64  // its fencing token, which is valid once it holds what it waits for
}

// participants returns the line in order, without those that left during the call.
func (l *line) participants(ctx context.Context) ([]Participant, error) {
	names, _, err := l.c.Children(ctx, l.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Participant
	for _, name := range l.marks.sorted(names) {
		data, stat, err := l.c.Get(ctx, join(l.dir, name))
		switch {
		case err == nil:
			list = append(list, Participant{join(l.dir, name), data, stat.Czxid})
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	return list, nil
}

// sorted returns the participants among names, by number.
func (m marks) sorted(names []string) []string {
	var list []participant
	for _, name := range names {
		if p, ok := m.parse(name); ok {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b participant) int { return cmp.Compare(compareNumbers(a.number, b.number), 0) })
	sorted := make([]string, len(list))
	for i, p := range list {
		sorted[i] = p.name
	}
	return sorted
}
