package fourletter

import (
	"cmp"
	"net/netip"
	"sync"
	"time"
)

// longWords are the words whose answers grow with the sessions, the watches or the connections.
var longWords = []string{"cons", "dump", "stat", "wchc", "wchp"}

const (
	// longAnswersMax bounds LongAnswers, and MonitorsMax those of mntr, which have up to 3 MB, and which monitoring needs.
	longAnswersMax = 2
	MonitorsMax    = 8
	// LongAnswerMin is the size (bytes) up to which an answer needs no place while it is sent.
	LongAnswerMin = 64 << 10
	// longAnswerPatience is how long an answer waits for its place.
	longAnswerPatience = 5 * time.Second
)

// LongAnswers are the answers being made of which each may take 8 MiB (AnswerBytesMax), and those of them that have
// more than LongAnswerMin and are being sent: two at a time. Each address has one at most, so that a client that
// doesn't read what it asked for takes no other's place. The zero value is ready to use.
type LongAnswers struct {
	Most int // how many at a time, instead of two; 0 for two

	mu    sync.Mutex
	of    map[netip.Prefix]bool // the addresses that have one
	ended chan struct{}         // closed when one ends; nil if nobody waits
}

// Begin waits until there is room for an answer to an address. It returns false if there isn't for 5 s, or when done is
// closed.
func (l *LongAnswers) Begin(from netip.Prefix, done <-chan struct{}) bool {
	late := time.NewTimer(longAnswerPatience)
	defer late.Stop()
	for {
		ended := l.tryBegin(from)
		if ended == nil {
			return true
		}
		select {
		case <-ended:
		case <-late.C:
			return false
		case <-done:
			return false
		}
	}
}

// tryBegin begins an answer, or returns a channel that is closed when there may be room.
func (l *LongAnswers) tryBegin(from netip.Prefix) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) < cmp.Or(l.Most, longAnswersMax) && !l.of[from] {
		if l.of == nil {
			l.of = map[netip.Prefix]bool{}
		}
		l.of[from] = true
		return nil
	}
	if l.ended == nil {
		l.ended = make(chan struct{})
	}
	return l.ended
}

// End ends an answer that has begun.
func (l *LongAnswers) End(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, from)
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}
