package replica

import (
	"testing"
	"time"
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
