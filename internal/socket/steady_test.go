package socket

import (
	"net"
	"os"
	"testing"
	"time"
)

// A sipping connection takes so many bytes between one deadline of its writes and the next.
type sipping struct {
	net.Conn
	sips      []int
	taken     int
	deadlines int
}

func (s *sipping) SetWriteDeadline(time.Time) error { s.deadlines++; return nil }

func (s *sipping) Write(p []byte) (int, error) {
	if len(s.sips) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := min(s.sips[0], len(p))
	s.taken += n
	s.sips = s.sips[1:]
	if n == len(p) {
		return n, nil
	}
	return n, os.ErrDeadlineExceeded
}

// TestSteady: a write goes on after its deadline if steadyBytesMin were taken by then, and not for a byte less.
func TestSteady(t *testing.T) {
	t.Parallel()
	const least = steadyBytesMin
	for name, c := range map[string]struct {
		sips      []int
		size      int
		off       bool
		taken     int
		deadlines int
	}{
		"at once":            {[]int{5 * least}, 5 * least, false, 5 * least, 0},
		"steadily":           {[]int{least, least, 2 * least, least}, 5 * least, false, 5 * least, 3},
		"the end is slow":    {[]int{least, least - 1}, 5 * least, false, 2*least - 1, 1},
		"nothing":            {nil, 5 * least, false, 0, 0},
		"a byte":             {[]int{1, 5 * least}, 5 * least, false, 1, 0},
		"during a handshake": {[]int{least, least}, 5 * least, true, least, 0},
	} {
		s := &sipping{sips: c.sips}
		conn := &Steady{Conn: s, TCP: s, Timeout: time.Hour}
		if !c.off {
			conn.Begin()
		}
		n, err := conn.Write(make([]byte, c.size))
		if n != c.taken || s.taken != c.taken || s.deadlines != c.deadlines || (err == nil) != (n == c.size) {
			t.Errorf("%s: %d bytes, %v; %d were taken and %d deadlines set, want %d and %d", name, n, err, s.taken,
				s.deadlines, c.taken, c.deadlines)
		}
	}
}
