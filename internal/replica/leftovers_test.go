package replica

import (
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// TestLeftovers plants what a client that has ended may leave behind: each is found, and only that.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plant func(s *localStage, gone, here *Client)
		want  string // "" for nothing
	}{
		{func(*localStage, *Client, *Client) {}, ""},
		{func(s *localStage, gone, _ *Client) {
			s.r.rooms.share(gone, s.r.meters.roomAwaited)
			s.r.clients[gone.id] = gone
		}, "the client 0x9 of a connection that has ended"},
		{func(s *localStage, _, _ *Client) { s.r.watches.table.Add(9, "/a", watch.Data) },
			"the watcher 0x9 of a connection that has ended"},
		{func(s *localStage, gone, _ *Client) { s.r.limiter.addresses.join("far", s.now, gone) },
			"far has a connection that has ended"},
		{func(s *localStage, gone, _ *Client) { s.r.limiter.identified.join("x:bob", s.now, gone) },
			"x:bob has a connection that has ended"},
		{func(s *localStage, _, here *Client) { s.r.limiter.identified.join("x:bob", s.now, here) }, ""},
		{func(s *localStage, _, _ *Client) { s.r.limiter.addresses.hold("far", s.now) },
			"far has 1 sessions, of which 0 are"},
		{func(s *localStage, _, _ *Client) { s.r.limiter.identified.hold("x:bob", s.now) },
			"x:bob has 1 sessions, of which 0 are"},
		{func(s *localStage, gone, _ *Client) { s.r.syncs.ask(gone, false) },
			"of 1 syncs that wait 1 are of connections that have ended, and 0 are counted"},
		{func(s *localStage, gone, here *Client) {
			s.r.syncs.ask(gone, false)
			s.r.syncs.ask(here, false)
			s.r.syncs.forget(gone)
		}, ""},
		{func(s *localStage, _, here *Client) { s.r.syncs.dead, _ = 1, s.r.syncs.ask(here, true) },
			"of 1 syncs that wait 0 are of connections that have ended, and 1 are counted"},
		{func(s *localStage, gone, _ *Client) { s.r.hearing.attach(4, gone) },
			"session 0x4 is attached to a connection that has ended or has another one"},
		{func(s *localStage, _, here *Client) { s.r.hearing.attach(4, here) },
			"session 0x4 is attached to a connection that has ended or has another one"},
		{func(s *localStage, _, _ *Client) {
			s.r.locals.sessions[5] = &localSession{}
			s.r.hearing.isLocal(5, true)
		}, "local session 0x5 doesn't end when it is silent"},
		{func(s *localStage, _, _ *Client) {
			s.r.locals.sessions[5] = &localSession{}
			s.r.locals.expiry.Heard(5, 6000, s.now)
		}, "local session 0x5 doesn't end when it is silent"},
		{func(s *localStage, _, _ *Client) { s.r.hearing.isLocal(5, true) },
			"of 0 local sessions 1 are heard and 0 expire"},
		{func(s *localStage, _, _ *Client) { s.r.locals.expiry.Heard(5, 6000, s.now) },
			"of 0 local sessions 0 are heard and 1 expire"},
		{func(s *localStage, _, _ *Client) { s.r.counts.owners[6] = sessionOwners{} }, "session 0x6 is over and counts"},
		{func(s *localStage, _, _ *Client) { s.r.expiry.Heard(7, 6000, s.now) },
			"of 1 sessions 1 expire, with 1 others"},
		{func(s *localStage, _, here *Client) { s.r.expiry.Forget(here.session) }, ""},
		{func(s *localStage, _, here *Client) {
			s.r.leader.IsLeader = true
			s.r.expiry.Forget(here.session)
		}, "of 1 sessions 0 expire, with 0 others"},
	} {
		s := newStage(t, Options{})
		here := s.client(nil)
		s.apply(s.forward()...)
		here.TakeOutput(nil)
		gone := NewClient(9, "gone", jute.ID{Scheme: "ip", ID: "127.0.0.9"}, Woken(func() {}))
		c.plant(s, gone, here)
		if got := strings.Join(s.r.Leftovers(func(c *Client) bool { return c == here }), "; "); got != c.want {
			t.Errorf("left over: %q, want %q", got, c.want)
		}
	}
}

// TestLeftoverCounts: what is counted for all clients together must be what they have. Each number is planted in the
// sum alone, in a client alone, and in both.
func TestLeftoverCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sum   func(*Replica)
		share func(*Client)
	}{
		"connect requests": {
			func(r *Replica) { r.newcomers.connecting++ },
			func(c *Client) { c.arrival.awaited = true },
		},
		"newcomers that wait": {
			func(r *Replica) { r.newcomers.waiting++ },
			func(c *Client) { c.arrival.newcomer = waitsToBegin },
		},
		"newcomers that begin": {
			func(r *Replica) { r.newcomers.beginning++ },
			func(c *Client) { c.arrival.newcomer = begins },
		},
		"read-only sessions": {
			func(r *Replica) { r.readOnlySessions++ },
			func(c *Client) { c.arrival.unrecorded = true },
		},
		"unanswered requests": {func(r *Replica) { r.unanswered.add(1, 0) }, func(c *Client) {
			c.unanswered.push(request{op: &opCloseSession})
		}},
		"bytes of unanswered requests": {
			func(r *Replica) { r.unanswered.add(0, 1) },
			func(c *Client) { c.unanswered.bytes++ },
		},
		"bytes of unread notifications": {
			func(r *Replica) { r.unread.bytes.Add(1) },
			func(c *Client) { c.out.events.waiting++ },
		},
		"watches":                    {func(r *Replica) { r.watches.table.Add(9, "/a", watch.Data) }, nil},
		"bytes of replies":           {func(r *Replica) { r.rooms.replies.Holder("x", nil).Note(1) }, nil},
		"bytes of unfinished frames": {func(r *Replica) { r.rooms.frames.Holder("x", nil).Note(1) }, nil},
	} {
		left := func(sum, share bool) []string {
			s := newStage(t, Options{})
			client := s.client(nil)
			s.apply(s.forward()...)
			client.TakeOutput(nil)
			if sum {
				c.sum(s.r)
			}
			if share {
				c.share(client)
			} else if c.share == nil {
				s.r.Disconnected(client)
			}
			return s.r.Leftovers(func(*Client) bool { return true })
		}
		if got, want := left(true, false), name+": 1 are kept, there are 0"; !slices.Contains(got, want) {
			t.Errorf("left over in the sum: %q, want %q", got, want)
		}
		if c.share == nil {
			continue
		}
		if got, want := left(false, true), []string{name + ": 0 are kept, there are 1"}; !slices.Equal(got, want) {
			t.Errorf("left over in a client: %q, want %q", got, want)
		}
		if got := left(true, true); len(got) > 0 {
			t.Errorf("left over in both: %q", got)
		}
	}
}
