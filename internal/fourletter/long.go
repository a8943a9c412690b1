package fourletter

import (
	"net/netip"
	"sync"
	"time"
)

// longWords are the words whose answers grow with the sessions, the watches or the connections.
var longWords = []string{"cons", "dump", "stat", "wchc", "wchp"}

const (
	// longAnswersMax bounds the answers of these words: those that are being built, and those of more than longAnswerMin
	// bytes that are being sent. Each address (Ask.From) has one of them at most, so that a client that doesn't read what
	// it asked for takes no other's place.
	longAnswersMax = 2
	longAnswerMin  = 64 << 10
	// longAnswerPatience is how long a word waits for its place; then its answer says that there is none.
	longAnswerPatience = 5 * time.Second
)

// longAnswers are the long answers that are being built or sent.
type longAnswers struct {
	mu    sync.Mutex
	of    map[netip.Prefix]bool // the addresses that have one
	ended chan struct{}         // closed when one ends; nil if nobody waits
}

// begin waits until there is room for an answer to an address. It returns false if there isn't for too long.
func (l *longAnswers) begin(from netip.Prefix) bool {
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
		}
	}
}

// tryBegin begins an answer, or returns a channel that is closed when there may be room.
func (l *longAnswers) tryBegin(from netip.Prefix) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) < longAnswersMax && !l.of[from] {
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

// end ends an answer that has begun.
func (l *longAnswers) end(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, from)
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}
