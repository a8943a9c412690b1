package peer

import (
	"sync"
	"time"
)

// Peers are dialled several times a second, so a wrong setting would fill the log with
// copies of one line. A line is logged at once, and then repeated at growing intervals, so
// that the log still shows what the server waits for.
const (
	logRatePauseMin = 5 * time.Second
	logRatePauseMax = time.Minute
	// logRateLinesMax bounds how many lines are remembered. If there are more, all are
	// forgotten.
	logRateLinesMax = 256
	// logRatePerSecond and logRateBurst bound all lines together: strangers at many
	// addresses can cause thousands of different lines per second.
	logRatePerSecond = 2
	logRateBurst     = 100
)

// A logRate limits equal lines and all lines together. It is safe for concurrent use.
type logRate struct {
	mu   sync.Mutex
	said map[string]loggedLine

	used   float64 // how much of logRateBurst was used at usedAt
	usedAt time.Time
}

type loggedLine struct {
	last  time.Time // when the line was last requested, whether it was logged or not
	next  time.Time // when the line may be logged again
	pause time.Duration
}

// due reports whether a line is to be logged now.
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
	if known && now.Sub(was.last) < logRatePauseMin { // the line was requested all the time
		pause = min(2*was.pause, logRatePauseMax)
	}
	c.said[line] = loggedLine{now, now.Add(pause), pause}
	return true
}

// room reserves one line of the common limit, and reports whether there was room for it.
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
