package replica

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestLatencies: of the times of replies, what four-letter words tell.
func TestLatencies(t *testing.T) {
	t.Parallel()
	var l latencies
	for _, of := range []struct {
		ms, n       int64
		least, most int64
		mean        float64
	}{{5, 2, 5, 5, 5}, {1, 1, 1, 5, 3.6667}, {3, 1, 1, 5, 3.5}, {0, 1, 0, 5, 2.8}, {20, 5, 0, 20, 11.4}} {
		l.observe(of.ms, of.n)
		if got, want := l.public(), (Latency{Min: of.least, Max: of.most, Avg: of.mean}); got != want ||
			l.last.Load() != of.ms {
			t.Errorf("after %d replies in %d ms: %+v, the last in %d; want %+v", of.n, of.ms, got, l.last.Load(), want)
		}
	}
	if l.reset(); l.public() != (Latency{}) || l.last.Load() != 0 || l.count.Load() != 0 {
		t.Errorf("after a reset: %+v", l.public())
	}
}

// TestSizes: of the sizes of replies, what is told.
func TestSizes(t *testing.T) {
	t.Parallel()
	var s sizes
	s.reset()
	for _, of := range []struct{ last, low, high, wantLow, wantHigh int64 }{
		{5, 5, 5, 5, 5}, {3, 2, 9, 2, 9}, {4, 4, 4, 2, 9}, {0, 0, 0, 0, 9}, {1, 1, 10, 0, 10},
	} {
		s.observe(of.last, of.low, of.high)
		if got, want := s.public(), (Sizes{of.last, of.wantLow, of.wantHigh}); got != want {
			t.Errorf("after %+v: %+v, want %+v", of, got, want)
		}
	}
}

// TestDigestsOfZxids: a digest is kept of each zxid that is due, once, but of none that begins an epoch.
func TestDigestsOfZxids(t *testing.T) {
	t.Parallel()
	p := &progress{}
	of := tree.New(tree.Options{})
	for _, zxid := range []int64{1, 127, digestEvery, digestEvery, 129, 2 * digestEvery, 1 << 32, 1<<32 + 1, 1<<32 + digestEvery} {
		p.noteDigest(zxid, of)
	}
	var got []int64
	for _, d := range p.digests {
		if got = append(got, d.Zxid); d.Value != int64(of.Digest()) {
			t.Errorf("the digest of %#x is %x, want %x", d.Zxid, d.Value, of.Digest())
		}
	}
	if want := []int64{digestEvery, 2 * digestEvery, 1<<32 + digestEvery}; !slices.Equal(got, want) {
		t.Errorf("the digests of %#x are kept, want %#x", got, want)
	}
}

// TestDigestsOfEntries: an entry's digest is known as long as it is one of the last; one that differs is noticed.
func TestDigestsOfEntries(t *testing.T) {
	t.Parallel()
	var l loop
	l.digests.note(5, 50)
	l.digests.note(0, 7)
	for _, of := range []struct {
		index, digest uint64
		differs       bool
	}{{5, 50, false}, {5, 51, true}, {6, 50, false}, {5 + digestsKept, 51, false}, {0, 8, false}} {
		if got := l.digests.differs(of.index, of.digest); got != of.differs {
			t.Errorf("the digest %d of entry %d differs: %t", of.digest, of.index, got)
		}
	}
	for _, of := range []struct {
		index, digest uint64
		ok            bool
	}{{5, 50, true}, {5 + digestsKept, 0, false}, {6, 0, false}} {
		if digest, ok := l.DigestAt(of.index); ok != of.ok || ok && digest != of.digest {
			t.Errorf("the digest of entry %d is %d, %t", of.index, digest, ok)
		}
	}
	l.doubtful = true
	if first, second := l.Doubtful(), l.Doubtful(); !first || second {
		t.Errorf("doubtful %t, and then %t", first, second)
	}
}

// TestChangePatience: a reconfig waits for a quarter of its session's timeout, in ticks of the quorum.
func TestChangePatience(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[int32]uint64{0: 0, 1: 1, 199: 1, 200: 1, 399: 1, 400: 2, 10_000: 50, 40_000: 200} {
		if got := changePatience(timeout); got != want {
			t.Errorf("with a timeout of %d ms it waits for %d ticks, want %d", timeout, got, want)
		}
	}
}

// TestNewIDs: ids are a server's, in order, and never one that stands for something else.
func TestNewIDs(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		server uint64
		ms     int64
		want   []int64
	}{
		{0, 0, []int64{1, 2}}, {1, 0, []int64{1 << 56, 1<<56 + 1}}, {128, 0, []int64{-1<<63 + 1, -1<<63 + 2}},
		{2, 1, []int64{2<<56 + 1<<16, 2<<56 + 1<<16 + 1}}, {255, 1<<40 + 3, []int64{-1<<56 + 3<<16, -1<<56 + 3<<16 + 1}},
	} {
		next := NewIDs(of.server, of.ms)
		if got := []int64{next(), next()}; !slices.Equal(got, of.want) {
			t.Errorf("server %d at %d: %#x, want %#x", of.server, of.ms, got, of.want)
		}
	}
}

// TestAccountIsExact: what the account adds up, byte by byte.
func TestAccountIsExact(t *testing.T) {
	t.Parallel()
	sizeOf := func(o *owner) int64 { return int64(unsafe.Sizeof(*o)) + int64(len(o.name)) + indexEntryBytes }
	for name, of := range map[string]struct {
		line func(*memory.Use) int64
		hold func(s *localStage, c *Client) (bytes int64)
	}{
		"buffers of output": {func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) int64 {
			c.out.frames, c.out.spare, c.out.taken = make([]byte, 0, 100), make([]byte, 0, 10), 1
			c.steps.read = &longRead{scan: tree.Scan{Body: make([]byte, 0, 1000)}}
			return 1111
		}},
		"buffers of others": {func(u *memory.Use) int64 { return u.Output }, func(s *localStage, _ *Client) int64 {
			s.r.large.free, s.r.large.size, s.r.large.used = [][]byte{nil}, 77, true
			return 77
		}},
		"input": {func(u *memory.Use) int64 { return u.Input }, func(_ *localStage, c *Client) int64 {
			c.input.size.Store(9)
			return 9
		}},
		"a connection": {func(u *memory.Use) int64 { return u.Input }, func(s *localStage, _ *Client) int64 {
			s.unconnected("127.0.0.3")
			return clientBytes
		}},
		"unanswered": {func(u *memory.Use) int64 { return u.Unanswered }, func(_ *localStage, c *Client) int64 {
			c.unanswered.bytes, c.unanswered.items = 5, make([]request, 0, 3)
			c.reader.recordsKept.Store(70)
			return 75 + 3*int64(unsafe.Sizeof(request{}))
		}},
		"identities": {func(u *memory.Use) int64 { return u.Identities }, func(_ *localStage, c *Client) int64 {
			id := jute.ID{Scheme: "digest", ID: "bob"}
			c.Identify(append(c.identities(), id))
			return 9 + int64(unsafe.Sizeof(id))
		}},
		"grants": {func(u *memory.Use) int64 { return u.Identities }, func(_ *localStage, c *Client) int64 {
			g := auth.Grant{By: jute.ID{Scheme: "x509", ID: "carol"}}
			c.grants.Store(&[]auth.Grant{g})
			return 9 + int64(unsafe.Sizeof(g))
		}},
		"an attached session": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, c *Client) int64 {
			s.r.hearing.attach(99, c)
			return indexEntryBytes
		}},
		"a session's owners": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			s.r.counts.owners[99] = sessionOwners{}
			return sessionOwnersBytes
		}},
		"a local session": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			s.r.locals.sessions[99] = &localSession{}
			return int64(unsafe.Sizeof(localSession{})) + indexEntryBytes + jute.PasswdSize
		}},
		"an address": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			return sizeOf(s.r.limiter.addresses.of("10.0.0.1", s.r.now(), nil))
		}},
		"an identity": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			return sizeOf(s.r.limiter.identified.of("digest:bob", s.r.now(), nil))
		}},
	} {
		s := newStage(t, Options{})
		c := s.unconnected("127.0.0.2")
		before := s.r.memoryUse()
		want := of.hold(s, c)
		after := s.r.memoryUse()
		if got := of.line(&after) - of.line(&before); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}

// TestCostliestIsTheMost: the address whose connections use most is the costliest, the smaller one of two equals.
func TestCostliestIsTheMost(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		bytes []int64
		want  int
	}{{[]int64{1, 3, 2}, 1}, {[]int64{3, 3, 2}, 0}, {[]int64{1, 3, 3}, 1}, {[]int64{0, 0, 0}, 0}} {
		s := newStage(t, Options{})
		for i, n := range of.bytes {
			s.unconnected(fmt.Sprintf("10.0.0.%d", i)).input.size.Store(n)
		}
		if u := s.r.memoryUse(); u.Costliest != fmt.Sprintf("10.0.0.%d", of.want) {
			t.Errorf("of %v the costliest is %s, want %d", of.bytes, u.Costliest, of.want)
		}
	}
}

// TestUnreadAreClosed: no connection is closed for its unread notifications while all together have no more than their
// share. Then those with most are, and of two with as much the older one, until a quarter of the share is free.
func TestUnreadAreClosed(t *testing.T) {
	t.Parallel()
	const limit = unreadShare * 1000
	for _, of := range []struct {
		unread []int
		closed []bool
	}{
		{[]int{500, 500, 0}, []bool{false, false, false}}, {[]int{500, 501, 0}, []bool{false, true, false}},
		{[]int{501, 501, 0}, []bool{true, false, false}}, {[]int{400, 601, 350}, []bool{false, true, false}},
		{[]int{400, 601, 351}, []bool{true, true, false}}, {[]int{0, 0, 1001}, []bool{false, false, true}},
	} {
		s := newStage(t, Options{})
		s.r.unread.limit.Store(limit)
		var all []*Client
		for _, n := range of.unread {
			c := s.session()
			c.out.events.waiting, c.out.events.taken = n-n/3, n/3
			s.r.unread.bytes.Add(int64(n))
			all = append(all, c)
		}
		s.r.relieve()
		for i, c := range all {
			if closed := c.Ending() != ""; closed != of.closed[i] {
				t.Errorf("of %v unread bytes, %d may be: connection %d is closed: %t", of.unread, limit/unreadShare, i, closed)
			}
		}
	}
	u := &unreadEvents{}
	if u.max() != unreadMaxDefault {
		t.Errorf("without a limit %d bytes may be unread", u.max())
	}
}

// TestTooMuchUnreadAtOnce: a connection that is to get more is closed at once if more than twice the share is unread.
func TestTooMuchUnreadAtOnce(t *testing.T) {
	t.Parallel()
	size := len(appendNotification(nil, 0, jute.EventNodeCreated, "/a"))
	for free, want := range map[int]int{size: 0, size - 1: 1, 0: 1, -1: 2} {
		s := newStage(t, Options{})
		s.r.unread.limit.Store(unreadShare * 10_000)
		s.r.unread.bytes.Store(int64(20_000 - free))
		all := []*Client{s.session(), s.session()}
		for _, c := range all {
			if _, err := s.receive(c, (&pipeline{}).request(nil, jute.OpExists, reading("/a", true))); err != nil {
				t.Fatal(err)
			}
		}
		s.write(s.session(), "/a", jute.ModePersistent)
		s.apply(s.forward()...)
		closed := 0
		for _, c := range all {
			if c.Ending() != "" {
				closed++
			}
		}
		told := int64(2-closed) * int64(size)
		if got := s.r.unread.bytes.Load(); closed != want || got != int64(20_000-free)+told {
			t.Errorf("with room for %d bytes, %d of two are closed that get %d each, want %d; %d bytes are unread", free, closed,
				size, want, got)
		}
		if n := s.r.meters.notificationsRefused.Value(); n != int64(want) {
			t.Errorf("%d are counted, want %d", n, want)
		}
	}
}

// TestUnansweredBounds: the numbers from which on a connection waits for others.
func TestUnansweredBounds(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		count   int64
		n       int
		crowded bool
		holds   bool
	}{
		{1000, 500, false, false}, {1001, 15, false, false}, {1001, 16, false, true}, {1001, 0, false, false},
		{4000, 1, false, false}, {4001, 1, false, true}, {4001, 0, false, false},
		{256, 16, true, false}, {257, 16, true, true}, {257, 15, true, false}, {257, 16, false, false},
	} {
		u := &unanswered{countMax: 1000}
		u.add(of.count, 0)
		if got := u.holds(of.n, of.crowded); got != of.holds {
			t.Errorf("%d unanswered of all, %d of a connection, crowded %t: it waits %t", of.count, of.n, of.crowded, got)
		}
	}
	u := &unanswered{countMax: 10}
	u.bound(0)
	if u.bytesMax.Load() != unansweredTotalMax {
		t.Errorf("without a limit, %d bytes", u.bytesMax.Load())
	}
	for limit, want := range map[int64]int64{
		unreadShare * 1000: 1000, unreadShare * unansweredTotalMax: unansweredTotalMax,
		unreadShare * (unansweredTotalMax + 1): unansweredTotalMax, -5: unansweredTotalMax,
	} {
		if u.bound(limit); u.bytesMax.Load() != want {
			t.Errorf("with a limit of %d, %d bytes, want %d", limit, u.bytesMax.Load(), want)
		}
	}
	for count, many := range map[int64]bool{10: false, 11: true} {
		u.sum.Store(0)
		if u.add(count, 5); u.manyRequests() != many || u.count() != count || u.bytes() != 5 {
			t.Errorf("%d requests are many: %t; %d, %d", count, u.manyRequests(), u.count(), u.bytes())
		}
	}
}

// TestWakesAtHalf: readers that wait for bytes go on once half of them are free.
func TestWakesAtHalf(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	u := &s.r.unanswered
	u.bytesMax.Store(1000)
	c := s.session()
	u.await(c)
	u.await(c)
	if len(u.waiting) != 1 || u.waits.Load() != 1 {
		t.Fatalf("one that waits waits %d times", len(u.waiting))
	}
	u.add(0, 501)
	if u.wake(); !c.awaits || len(u.waiting) != 1 {
		t.Error("with 501 of 1,000 bytes it goes on")
	}
	u.add(0, -1)
	if u.wake(); c.awaits || len(u.waiting) != 0 || u.waits.Load() != 0 {
		t.Error("with 500 of 1,000 bytes it doesn't go on")
	}
}
