package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestServingDefaults replaces what would be useless, and keeps the rest.
func TestServingDefaults(t *testing.T) {
	t.Parallel()
	def := Serving{}.WithDefaults()
	if got := (Serving{Tick: -1, MaxFrame: -1, MaxOutstanding: -1, SnapCount: -1, SnapBytes: -1}).WithDefaults(); got !=
		def {
		t.Errorf("of settings below zero: %+v, want %+v", got, def)
	}
	if want := (Serving{
		Tick: 3 * time.Second, SessionTimeoutMin: 6 * time.Second, SessionTimeoutMax: time.Minute, MaxFrame: 1<<20 - 1,
		MaxOutstanding: 1000, SnapCount: 100_000, SnapBytes: 4 << 30,
	}); def != want {
		t.Errorf("the settings are %+v, and in ZooKeeper %+v", def, want)
	}
	if def.SessionTimeoutMin != 2*TickDefault || def.SessionTimeoutMax != 20*TickDefault {
		t.Errorf("session timeouts of %v to %v", def.SessionTimeoutMin, def.SessionTimeoutMax)
	}
	set := Serving{
		Tick: time.Second, SessionTimeoutMin: 3, SessionTimeoutMax: 4, MaxFrame: 5, MaxOutstanding: 6,
		ReadOnlyMode: true, LocalSessions: true, LocalSessionsUpgrading: true, SnapCount: 7, SnapBytes: 8,
	}
	if got := set.WithDefaults(); got != set {
		t.Errorf("of settings that are set: %+v, want %+v", got, set)
	}
}

// TestPermits: an ACL grants what it says, to those that it names; a znode that doesn't exist grants nothing.
func TestPermits(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	bob, eve := jute.ID{Scheme: "ip", ID: "10.0.0.1"}, jute.ID{Scheme: "ip", ID: "10.0.0.2"}
	for path, acl := range map[string][]jute.ACL{
		"/open": jute.WorldACL(jute.PermRead), "/bob": {{Perms: jute.PermRead, ID: bob}},
	} {
		q := tree.Request{Op: jute.OpCreate, Body: (&jute.CreateRequest{Path: path, ACL: acl}).Append(nil)}
		s.apply(tree.AppendRecord(nil, &q))
	}
	for _, c := range []struct {
		path          string
		perm          jute.Perm
		who           jute.ID
		permits, name bool
	}{
		{"/open", jute.PermRead, eve, true, false}, {"/open", jute.PermWrite, eve, false, false},
		{"/bob", jute.PermRead, bob, true, true}, {"/bob", jute.PermRead, eve, false, false},
		{"/bob", jute.PermWrite, bob, false, false}, {"/none", jute.PermRead, bob, false, false},
		{"/bob", jute.PermWrite, jute.ID{Scheme: "super"}, true, true},
		{"/open", jute.PermWrite, jute.ID{Scheme: "super"}, true, true},
	} {
		ids := []jute.ID{c.who}
		if got := s.r.Permits(c.path, c.perm, ids); got != c.permits {
			t.Errorf("%s permits %v %d: %t", c.path, c.who, c.perm, got)
		}
		if got := s.r.PermitsNamed(c.path, c.perm, ids); got != c.name {
			t.Errorf("%s permits %v by name %d: %t", c.path, c.who, c.perm, got)
		}
	}
}
