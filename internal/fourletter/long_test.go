package fourletter

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongAnswers: an address has one long answer at a time, and there are longAnswersMax in all. Others wait until one
// ends, and give up after longAnswerPatience.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &New(nil).long
		from := func(i int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/32", i)) }
		for i := range longAnswersMax {
			if !l.Begin(from(i), nil) {
				t.Fatalf("answer %d doesn't begin", i)
			}
		}
		if l.Begin(from(0), nil) || l.Begin(from(9), nil) {
			t.Error("an address has two answers, or there are more than longAnswersMax")
		}
		began := make(chan int)
		for _, i := range []int{0, 9} {
			go func() {
				if l.Begin(from(i), nil) {
					began <- i
				}
			}()
		}
		synctest.Wait()
		l.End(from(1))
		if i := <-began; i != 9 {
			t.Errorf("the answer to address %d begins, want 9", i)
		}
		l.End(from(0))
		if i := <-began; i != 0 {
			t.Errorf("the answer to address %d begins, want 0", i)
		}
		l.End(from(0))
		l.End(from(9))
		gone := make(chan struct{})
		close(gone)
		if !l.Begin(from(0), gone) || l.Begin(from(0), gone) {
			t.Error("a client that is gone waits")
		}
		l.End(from(0))
		if len(l.of) != 0 {
			t.Errorf("%v are left", l.of)
		}
	})
}

// TestLongAnswersGoRound: addresses take turns, whatever order their answers came in and however many each of them has.
func TestLongAnswersGoRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &LongAnswers{Most: 1}
		order := make(chan int)
		ask := func(i int) {
			go func() {
				from := address(i)
				if l.Begin(from, nil) {
					order <- i
					l.End(from)
				}
			}()
			synctest.Wait()
		}
		for _, i := range []int{1, 1, 1, 1, 2, 2, 3} { // the first one begins at once
			ask(i)
		}
		for n, want := range []int{1, 2, 3, 1, 2, 1, 1} {
			if got := <-order; got != want {
				t.Errorf("answer %d is for address %d, want %d", n, got, want)
			}
			synctest.Wait()
		}
		if len(l.of) != 0 || len(l.queue) != 0 || l.taken != 0 {
			t.Errorf("%v, %v, %d are left", l.of, l.queue, l.taken)
		}
	})
}

// address returns an address of many.
func address(i int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/32", i)) }

// A reader is a client that takes some bytes of its answer each second, until it is reset.
type reader struct {
	pace  uint64
	blind bool // the system doesn't say what is delivered
	began time.Time
	reset chan struct{}
}

func (r *reader) Delivered() (n uint64, ok bool) {
	return r.pace * uint64(time.Since(r.began)) / uint64(time.Second), !r.blind
}

func (r *reader) Reset() { close(r.reset) }

// TestUnreadAnswersMakeRoom: a client that reads nothing of its answer, or little, loses its place after a second if
// another address waits; one that reads slowly, or of which nothing is known, after four. Nobody loses it to an address
// that has one.
func TestUnreadAnswersMakeRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pace  uint64
		blind bool
		other int // the address of the answer that waits
		keeps time.Duration
	}{
		"reads nothing":        {0, false, 2, unreadPatience},
		"reads a few bytes":    {takenBytesMin / 2, false, 2, unreadPatience},
		"reads":                {takenBytesMin * 8, false, 2, sendingPatience},
		"may read":             {0, true, 2, sendingPatience},
		"the only one to wait": {0, false, 1, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &LongAnswers{Most: 1}
			r := &reader{pace: c.pace, blind: c.blind, began: time.Now(), reset: make(chan struct{})}
			if !l.Begin(address(1), nil) {
				t.Fatal("no answer begins")
			}
			begins := l.join(address(c.other))
			l.Send(r, func() error {
				select {
				case <-r.reset:
				case <-time.After(time.Minute):
				}
				return nil
			})
			if kept := time.Since(r.began); kept < c.keeps || kept > c.keeps+unreadPatience/2 {
				t.Errorf("%s: keeps its place for %v, want %v", name, kept, c.keeps)
			}
			l.End(address(1))
			<-begins
		})
	}
}

// TestUnreadAnswersStay: a client that reads nothing keeps its place while no other address waits for it, and loses it
// soon when one comes.
func TestUnreadAnswersStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &LongAnswers{Most: 1}
		r := &reader{began: time.Now(), reset: make(chan struct{})}
		if !l.Begin(address(1), nil) {
			t.Fatal("no answer begins")
		}
		go func() {
			l.Send(r, func() error { <-r.reset; return nil })
			l.End(address(1))
		}()
		time.Sleep(time.Hour)
		select {
		case <-r.reset:
			t.Fatal("it is reset while nobody waits")
		default:
		}
		came := time.Now()
		if !l.Begin(address(2), nil) {
			t.Fatal("no other answer begins")
		}
		if waited := time.Since(came); waited > unreadPatience {
			t.Errorf("the other one waits for %v", waited)
		}
	})
}
