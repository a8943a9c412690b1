package fourletter

import (
	"cmp"
	"net/netip"
	"slices"
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
	// unreadPatience is how long a client keeps its place if it takes less than takenBytesMin of the answer, and
	// sendingPatience, how long if it takes more, while another address waits. It is less than longAnswerPatience, so that
	// the other one gets a place.
	unreadPatience  = time.Second
	takenBytesMin   = 16 << 10
	sendingPatience = 4 * time.Second
)

// LongAnswers are the answers being made of which each may take 8 MiB (AnswerBytesMax), and those of them that have
// more than LongAnswerMin and are being sent: two at a time. Each address has one at most. The addresses take turns.
// One that doesn't read its answer loses its place if another waits. The zero value is ready to use.
type LongAnswers struct {
	Most int // how many at a time, instead of two; 0 for two

	mu    sync.Mutex
	of    map[netip.Prefix]*asker // all that have an answer or wait for one
	queue []*asker                // those that wait, in the order of their turns
	taken int                     // how many have an answer
}

// An asker is an address that has an answer or waits for some.
type asker struct {
	has   bool
	waits []chan struct{} // one for each answer; closed when it begins
}

// Begin waits until there is room for an answer to an address. It returns false if there isn't for 5 s, or when done is
// closed.
func (l *LongAnswers) Begin(from netip.Prefix, done <-chan struct{}) bool {
	begins := l.join(from)
	late := time.NewTimer(longAnswerPatience)
	defer late.Stop()
	select {
	case <-begins:
		return true
	case <-late.C:
	case <-done:
	}
	return !l.leave(from, begins)
}

// join adds an answer to an address. The channel is closed when it begins.
func (l *LongAnswers) join(from netip.Prefix) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[netip.Prefix]*asker{}
	}
	a := l.of[from]
	if a == nil {
		a = &asker{}
		l.of[from] = a
	}
	if len(a.waits) == 0 {
		l.queue = append(l.queue, a)
	}
	begins := make(chan struct{})
	a.waits = append(a.waits, begins)
	l.beginNext()
	return begins
}

// leave removes an answer that waits. It returns false if the answer has begun.
func (l *LongAnswers) leave(from netip.Prefix, begins chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of[from]
	i := slices.Index(a.waits, begins)
	if i < 0 {
		return false
	}
	a.waits = slices.Delete(a.waits, i, i+1)
	l.tidy(from, a)
	return true
}

// tidy forgets what isn't needed of an address whose answers have become fewer. The caller holds mu.
func (l *LongAnswers) tidy(from netip.Prefix, a *asker) {
	if len(a.waits) > 0 {
		return
	}
	l.dequeue(a)
	if !a.has {
		delete(l.of, from)
	}
}

// dequeue removes an address from the queue. The caller holds mu.
func (l *LongAnswers) dequeue(a *asker) {
	l.queue = slices.DeleteFunc(l.queue, func(b *asker) bool { return a == b })
}

// next returns the address whose turn it is, nil if none waits but those that have an answer. The caller holds mu.
func (l *LongAnswers) next() *asker {
	for _, a := range l.queue {
		if !a.has {
			return a
		}
	}
	return nil
}

// beginNext begins the next answer if there is room. The caller holds mu.
func (l *LongAnswers) beginNext() {
	a := l.next()
	if a == nil || l.taken >= cmp.Or(l.Most, longAnswersMax) {
		return
	}
	a.has = true
	l.taken++
	close(a.waits[0])
	if a.waits = slices.Delete(a.waits, 0, 1); len(a.waits) == 0 {
		l.dequeue(a)
	}
}

// End ends an answer that has begun. If its address waits for more, it is the last one in the queue.
func (l *LongAnswers) End(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of[from]
	a.has = false
	l.taken--
	l.dequeue(a)
	if len(a.waits) > 0 {
		l.queue = append(l.queue, a)
	}
	l.tidy(from, a)
	l.beginNext()
}

// wanted reports whether a place is all that an address waits for which has none.
func (l *LongAnswers) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next() != nil
}

// An Output is the connection on which an answer is sent.
type Output interface {
	// Delivered returns how many bytes the client has taken so far; ok is false if that isn't known.
	Delivered() (n uint64, ok bool)
	// Reset closes the connection at once.
	Reset()
}

// Send calls send, which sends an answer that has begun. It resets the connection if the client doesn't read the
// answer, or reads slowly, while another address waits for a place.
func (l *LongAnswers) Send(to Output, send func() error) error {
	sent, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		l.watch(to, sent)
	}()
	err := send()
	close(sent)
	<-watched // the connection may be used again
	return err
}

// watch resets a connection as Send says, unless sent is closed before.
func (l *LongAnswers) watch(to Output, sent <-chan struct{}) {
	check := time.NewTicker(unreadPatience / 8)
	defer check.Stop()
	began := time.Now()
	mark, known := to.Delivered()
	read := began // the last time at which it was seen to have taken takenBytesMin
	for {
		select {
		case <-sent:
			return
		case now := <-check.C:
			if n, ok := to.Delivered(); !known || ok && n-mark >= takenBytesMin {
				mark, read = n, now
			}
			if (now.Sub(read) >= unreadPatience || now.Sub(began) >= sendingPatience) && l.wanted() {
				to.Reset()
				return
			}
		}
	}
}
