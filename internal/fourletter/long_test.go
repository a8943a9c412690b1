package fourletter

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
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
