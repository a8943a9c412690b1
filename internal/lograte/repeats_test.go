package lograte

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRepeats: a line comes at once, then at growing pauses while it lasts.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var c Repeats
	now, said := time.Now(), 0
	const step = 250 * time.Millisecond
	for range int(time.Hour / step) {
		if c.Due("x", now) {
			said++
		}
		now = now.Add(step)
	}
	if said < 40 || said > 70 {
		t.Errorf("a line that is wanted for an hour is said %d times", said)
	}
	if !c.Due("y", now) || c.Due("y", now) {
		t.Error("another line is not said at once, or twice")
	}
	closed := "connect to server 2: the peer ended the TLS handshake ("
	if !c.Due(closed+"EOF)", now) || c.Due(closed+"read: connection reset by peer)", now) ||
		c.Due(closed+"write: broken pipe)", now) || c.Due(closed+"EOF)", now) {
		t.Error("lines about a closed connection are not said at once, or several times")
	}
	for i := range 3 * repeatedLinesMax {
		if now = now.Add(time.Second); !c.Due(strings.Repeat("z", i), now) {
			t.Fatalf("line %d of as many in seconds is not said", i+1)
		}
	}
	if len(c.said) > repeatedLinesMax {
		t.Errorf("%d lines are remembered", len(c.said))
	}
}

// TestLinesOfStrangers: lines that all differ have a limit together.
func TestLinesOfStrangers(t *testing.T) {
	t.Parallel()
	var c Repeats
	now, said := time.Now(), 0
	for i := range 100 * peerLinesBurst {
		if c.Due(strconv.Itoa(i), now) {
			said++
		}
	}
	if said != peerLinesBurst {
		t.Errorf("%d different lines at once are said, want %d", said, peerLinesBurst)
	}
	if now = now.Add(time.Second); !c.Due("later", now) {
		t.Error("a second later there is no room for a line")
	}
}
