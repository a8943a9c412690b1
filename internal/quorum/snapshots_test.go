package quorum

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestLoggedBytes: an entry takes whole sectors of the log.
func TestLoggedBytes(t *testing.T) {
	t.Parallel()
	for data, want := range map[int]int64{
		0: frameSector, 1: frameSector, frameSector - frameOverhead: frameSector,
		frameSector - frameOverhead + 1: 2 * frameSector,
		10 * frameSector:                11 * frameSector,
	} {
		s := snapshots{logBytes: 7}
		if s.logged(data); s.logBytes != 7+want {
			t.Errorf("%d bytes take %d, want %d", data, s.logBytes-7, want)
		}
	}
}

// TestSnapshotBegins: when a snapshot is written, by a server whose state machine wants one for 100 bytes of log.
func TestSnapshotBegins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		is   func(l *Loop)
		want bool
	}{
		{"due", func(l *Loop) { l.snap.logBytes = 100 }, true},
		{"not due", func(l *Loop) { l.snap.logBytes = 99 }, false},
		{"a member needs one", func(l *Loop) { l.snap.wanted = true }, true},
		{"one is being written", func(l *Loop) { l.snap.wanted, l.snap.running = true, true }, false},
		{"in doubt", func(l *Loop) { l.snap.wanted, l.doubts.open = true, true }, false},
		{"after a failure", func(l *Loop) { l.snap.wanted, l.snap.retryAt = true, l.ticks+1 }, false},
		{"long after a failure", func(l *Loop) { l.snap.wanted, l.snap.retryAt = true, l.ticks }, true},
	} {
		cl := newCluster(t, 1)
		b := cl.leader1()
		b.snapshot = 100
		l := b.loop
		l.snap = snapshots{sent: sent{}, logBytes: 50}
		c.is(l)
		was := l.snap
		l.snap.consider(l)
		b.turn()
		began := l.snap.logBytes == 0
		if began != c.want || began && (l.snap.wanted || !l.snap.running || l.snap.began != l.ticks) ||
			!began && (l.snap.wanted != was.wanted || l.snap.running != was.running) {
			t.Errorf("%s: %+v", c.what, l.snap)
		}
		for _, f := range b.inbox {
			f()
		}
		meta, ok := b.dir.NewestSnapshot()
		if ok != c.want || ok && (meta.Index != l.applied || len(meta.ConfState.GetVoters()) != 1) ||
			began && l.snap.running {
			t.Errorf("%s: the newest snapshot is %+v; one is being written: %t", c.what, meta, l.snap.running)
		}
	}
}

// purges is a Shell that notes how it is asked to purge.
type purges struct {
	Shell
	keep   int
	needed uint64
	times  int
}

func (p *purges) Purge(keep int, needed uint64) { p.keep, p.needed, p.times = keep, needed, p.times+1 }

// done is a state machine that notes which snapshot was written.
type done struct {
	StateMachine
	meta  storage.Meta
	bytes int64
}

func (d *done) SnapshotDone(meta storage.Meta, bytes int64) { d.meta, d.bytes = meta, bytes }

// TestSnapshotEnds: the state machine is told of a written snapshot, and older ones are purged; after a failure there
// is a pause.
func TestSnapshotEnds(t *testing.T) {
	t.Parallel()
	b := newCluster(t, 1).leader1()
	l := b.loop
	state, shell := &done{StateMachine: l.state}, &purges{Shell: l.shell}
	l.state, l.shell = state, shell
	l.snap.running = true
	l.snap.written(l, Event{Meta: storage.Meta{Index: 2}, Err: errOdd})
	if s := l.snap; s.running || s.retryAt != l.ticks+snapshotRetryTicks || shell.times > 0 || state.meta.Index != 0 ||
		l.failed != nil {
		t.Errorf("after a failure: %+v, purged %d times, told of %+v, %v", s, shell.times, state.meta, l.failed)
	}
	l.snap.running = true
	l.snap.written(l, Event{Meta: storage.Meta{Index: 2}, Bytes: 9})
	if b.turn(); l.snap.running || shell.times != 1 || shell.keep != 1 || shell.needed != 0 || state.meta.Index != 2 ||
		state.bytes != 9 {
		t.Errorf("purged %d times (%+v), told of %+v", shell.times, shell, state)
	}
	b.fs.Hook = func(c storage.Call) error {
		if c.Op == "fdatasync" {
			return errOdd
		}
		return nil
	}
	if err := l.disk.Append(nil, nil, true); err == nil {
		t.Fatal("the log goes on after a failed sync")
	}
	if l.snap.written(l, Event{Err: errOdd}); !errors.Is(l.failed, errOdd) {
		t.Errorf("the log has failed, and the server ends with %v", l.failed)
	}
}

// TestSnapshotNeeded: the log after a snapshot that was sent is kept for the member that needs the most of it, until it
// has caught up or has gone.
func TestSnapshotNeeded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	last := lead.loop.applied // that 2 and 3 have
	for _, x := range []struct {
		what  string
		sent  sent
		index uint64
		lead  bool
		want  uint64
		kept  sent
	}{
		{"nothing is sent", sent{}, last + 1, true, 0, sent{}},
		{"it has caught up", sent{2: 1}, last, true, 0, sent{}},
		{"it has more than its snapshot", sent{2: 1}, last + 1, true, last, sent{2: 1}},
		{"it has its snapshot at most", sent{2: last + 3}, last + 9, true, last + 3, sent{2: last + 3}},
		{"the one that has less", sent{2: last + 3, 3: last + 2}, last + 9, true, last + 2, sent{2: last + 3, 3: last + 2}},
		{"the other one", sent{2: last + 2, 3: last + 3}, last + 9, true, last + 2, sent{2: last + 2, 3: last + 3}},
		{"a server that has gone", sent{7: 1}, last + 1, true, 0, sent{}},
		{"not a leader", sent{2: 1}, last + 1, false, 0, sent{}},
	} {
		l := c.nodes[1].loop
		if !x.lead {
			l = c.nodes[2].loop
		}
		if got := x.sent.needed(l, x.index); got != x.want || !maps.Equal(x.sent, x.kept) {
			t.Errorf("%s: the log after %d is needed, want %d; %v", x.what, got, x.want, x.sent)
		}
	}
}

// TestTransfer: who is asked to take over, of the voters that are active: the one that has most of the log, and that
// doesn't drain if there is another.
func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what string
		is   func(c *cluster, h *leadership)
		to   []uint64
		want uint64
	}{
		{"it has more", func(*cluster, *leadership) {}, []uint64{2, 3}, 3},
		{"the other only", func(*cluster, *leadership) {}, []uint64{2}, 2},
		{"it drains", func(_ *cluster, h *leadership) { h.drains.granted[3] = 1 }, []uint64{2, 3}, 2},
		{"both drain", func(_ *cluster, h *leadership) { h.drains.granted[2], h.drains.granted[3] = 1, 1 }, []uint64{2, 3},
			3},
		{"it is gone", func(c *cluster, _ *leadership) {
			c.crash(3)
			c.step(30)
		}, []uint64{2, 3}, 2},
		{"nobody", func(*cluster, *leadership) {}, []uint64{4}, 0},
	} {
		c := newCluster(t, 1, 2, 3)
		lead := c.elect(1)
		c.step(5)
		c.nodes[2].hung = true // it acknowledges nothing more
		lead.say(1)
		c.step(2)
		x.is(c, &lead.loop.leadership)
		h := &lead.loop.leadership
		if got := h.transferTo(x.to); got != (x.want != 0) || h.handing != got {
			t.Errorf("%s: handed over: %t", x.what, got)
		}
		if got := h.node.raw.BasicStatus().LeadTransferee; got != x.want {
			t.Errorf("%s: server %d is to lead, want %d", x.what, got, x.want)
		}
	}
}

// closing is an image that notes whether it was closed.
type closing struct {
	Image
	closed int
}

func (i *closing) Close() { i.closed++ }

// TestWriteImage: a snapshot that can't be written, or whose writing is ended, leaves no file, even if what failed
// would succeed a moment later; the image is closed in any case.
func TestWriteImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, op string
		nth      int // call of op fails, and only that
		cause    error
		written  bool
	}{
		{"the file can't be created", "create", 1, errOdd, false},
		{"its chunk can't be written", "write", 2, errOdd, false},
		{"the disk is full for a moment", "write", 2, syscall.ENOSPC, false},
		{"it is ended", "pause", 2, errOdd, false},
		{"it can't be made durable", "fdatasync", 1, errOdd, true},
		{"nothing fails", "", 0, nil, true},
	} {
		b := newCluster(t, 1).leader1()
		b.applied = make([]uint64, 1<<18) // more than the writer buffers
		files := func() []string {
			list, err := b.fs.ReadDir("/data")
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		before := files()
		image := &closing{Image: b.Snapshot()}
		meta := image.Describe()
		meta.ConfState = b.loop.conf
		calls := 0
		called := func(op string) error {
			if op == c.op {
				if calls++; calls == c.nth {
					return c.cause
				}
			}
			return nil
		}
		b.fs.Hook = func(call storage.Call) error { return called(call.Op) }
		n, err := WriteImage(b.dir, meta, image, func() error { return called("pause") })
		b.fs.Hook = nil
		if !errors.Is(err, c.cause) || (n == 8<<18) != c.written || image.closed != 1 {
			t.Errorf("%s: %d bytes, %v; the image was closed %d times", c.what, n, err, image.closed)
		}
		if now := files(); slices.Equal(now, before) != (c.cause != nil) {
			t.Errorf("%s: there are %q, and %q before", c.what, now, before)
		}
	}
}
