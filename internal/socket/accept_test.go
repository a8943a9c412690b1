package socket

import (
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedListener returns what its script says; each function is one Accept.
type scriptedListener struct {
	net.Listener
	script []func() (net.Conn, error)
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	next := l.script[0]
	l.script = l.script[1:]
	return next()
}

// TestAccepted: failed accepts are reported and waited for, longer each time, until one succeeds. The end of the
// listener is no failure, and neither is one behind the end of its user.
func TestAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := net.Pipe()
		defer one.Close()
		defer other.Close()
		exhausted := errors.New("no descriptors are left")
		fails := func() (net.Conn, error) { return nil, exhausted }
		succeeds := func() (net.Conn, error) { return one, nil }
		done := make(chan struct{})
		l := &scriptedListener{script: []func() (net.Conn, error){
			fails, fails, succeeds, fails, succeeds, func() (net.Conn, error) { return nil, net.ErrClosed },
		}}
		began, failed := time.Now(), 0
		var after []time.Duration
		for range Accepted(l, done, func(error) { failed++ }) {
			after = append(after, time.Since(began))
		}
		if want := []time.Duration{3 * acceptPauseMin, 4 * acceptPauseMin}; !slices.Equal(after, want) || failed != 3 ||
			len(l.script) > 0 {
			t.Errorf("%d failures; connections after %v; %d steps are left", failed, after, len(l.script))
		}

		for range 20 {
			l.script = append(l.script, fails)
		}
		l.script = append(l.script, func() (net.Conn, error) { close(done); return nil, exhausted })
		began, failed = time.Now(), 0
		for range Accepted(l, done, func(error) { failed++ }) {
			t.Error("there is a connection")
		}
		// 5, 10, … 640 ms, and a second each from then on.
		if took := time.Since(began); failed != 20 || took != 255*acceptPauseMin+12*acceptPauseMax {
			t.Errorf("%d failures in %v", failed, took)
		}
	})
}
