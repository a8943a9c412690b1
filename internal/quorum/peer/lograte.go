package peer

import (
	"sync"
	"time"
)

// Peers are dialled several times a second, so a wrong setting would fill the log with one
// line. A line is logged at once, and repeated at growing pauses: often enough that the log
// shows what the server waits for.
const (
	logRatePauseMin = 5 * time.Second
	logRatePauseMax = time.Minute
	// logRateLinesMax bounds how many lines are remembered; when there are more,
	// all are forgotten.
	logRateLinesMax = 256
	// logRatePerSecond and logRateBurst bound all lines together: strangers can
	// cause different ones, from many addresses, thousands of times a second.
	logRatePerSecond = 2
	logRateBurst     = 100
)

// A logRate limits equal lines and all lines together. It is safe for concurrent use.
type logRate struct {
	mu   sync.Mutex
	said map[string]loggedLine

	used   float64   // of logRateBurst
	usedAt time.Time // when that was so
}

type loggedLine struct {
	last  time.Time // when it was wanted, said or not
	next  time.Time // when it may be said
	pause time.Duration
}

// due reports whether a line is to be said now.
func (c *logRate) due(line string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.said[line]
	if known && now.Before(was.next) {
		was.last = now
		c.said[line] = was
		return false
	}
	if !c.room(now) {
		return false
	}
	if c.said == nil || len(c.said) >= logRateLinesMax {
		c.said = map[string]loggedLine{}
	}
	pause := logRatePauseMin
	if known && now.Sub(was.last) < logRatePauseMin { // it went on all the time
		pause = min(2*was.pause, logRatePauseMax)
	}
	c.said[line] = loggedLine{now, now.Add(pause), pause}
	return true
}

// room takes the room of one line, and reports whether there was any.
func (c *logRate) room(now time.Time) bool {
	if d := now.Sub(c.usedAt); d > 0 {
		c.used = max(0, c.used-d.Seconds()*logRatePerSecond)
		c.usedAt = now
	}
	if c.used+1 > logRateBurst {
		return false
	}
	c.used++
	return true
}
