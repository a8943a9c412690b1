package lograte

import (
	"strings"
	"sync"
	"time"
)

// Servers dial each other several times a second, so a wrong setting would fill the log with copies of one line. A line
// is logged at once, and then repeated at growing intervals, so that the log still shows what the server waits for.
const (
	repeatPauseMin = 5 * time.Second
	repeatPauseMax = time.Minute
	// repeatedLinesMax bounds how many lines are remembered. If there are more, all are forgotten.
	repeatedLinesMax = 256
	// peerLinesPerSecond and peerLinesBurst bound all lines together: strangers at many addresses can cause thousands
	// of different lines per second.
	peerLinesPerSecond = 2
	peerLinesBurst     = 100
)

// Repeats limits equal lines about peers, and all such lines together. It is safe for concurrent use. The zero value is
// ready to use.
type Repeats struct {
	mu   sync.Mutex
	said map[string]repeatedLine
	all  rate
}

type repeatedLine struct {
	last  time.Time // when the line was last requested, whether it was logged or not
	next  time.Time // when the line may be logged again
	pause time.Duration
}

// oneCause removes the difference between lines about a connection that the other end has closed. Which error the
// system reports depends on what had arrived at the other end by then.
var oneCause = strings.NewReplacer("unexpected EOF", "EOF", "read: connection reset by peer", "EOF",
	"write: connection reset by peer", "EOF", "write: broken pipe", "EOF")

// Due reports whether a line is to be logged now. Lines about a connection that was closed are equal if only the
// system's error differs.
func (r *Repeats) Due(line string, now time.Time) bool {
	line = oneCause.Replace(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.said[line]
	if known && now.Before(was.next) {
		was.last = now
		r.said[line] = was
		return false
	}
	if !r.all.take(now, peerLinesPerSecond, peerLinesBurst) {
		return false
	}
	if r.said == nil || len(r.said) >= repeatedLinesMax {
		r.said = map[string]repeatedLine{}
	}
	pause := repeatPauseMin
	if known && now.Sub(was.last) < repeatPauseMin { // the line was requested all the time
		pause = min(2*was.pause, repeatPauseMax)
	}
	r.said[line] = repeatedLine{now, now.Add(pause), pause}
	return true
}
