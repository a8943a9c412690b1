package lograte

import (
	"testing"
	"time"
)

// TestLimit takes lines at given times: the burst, then the
// pace, and the count of what was left out.
func TestLimit(t *testing.T) {
	var l lineLimit
	now := time.Unix(1000, 0)
	passed := 0
	for range 10 * Burst {
		if _, ok := l.take(now); ok {
			passed++
		}
	}
	if passed != Burst {
		t.Errorf("%d lines passed at once, want %d", passed, Burst)
	}
	leftOut, ok := l.take(now.Add(time.Second))
	if want := 9 * Burst; !ok || leftOut != want {
		t.Errorf("a second later: passed %v, %d lines left out, want %d", ok, leftOut, want)
	}
	for passed = 1; ; passed++ {
		if _, ok := l.take(now.Add(time.Second)); !ok {
			break
		}
	}
	if passed != LinesPerSecond {
		t.Errorf("%d lines passed after a second, want %d", passed, LinesPerSecond)
	}
}
