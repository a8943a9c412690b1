package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestNothingIsShownOfHalfAnEntry: while an entry is applied, somebody writes to the client
// of its first request. He gets its answer once all of the entry is applied, and never if a
// later request panics: operators may skip the entry, and the request would be lost.
func TestNothingIsShownOfHalfAnEntry(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		var c *Client
		shown := make(chan []byte, 1)
		early := func() bool {
			select {
			case out := <-shown:
				shown <- out
				return true
			case <-time.After(100 * time.Millisecond): // too short a time hides a fault, and makes none
				return false
			}
		}
		s := newStage(t, Options{
			Serving: Serving{LocalSessions: true},
			Observe: func(res *tree.Result) {
				if res.Path != "/b" {
					return
				}
				go func() {
					out, _ := c.TakeOutput(nil)
					shown <- out
				}()
				if early() {
					t.Errorf("panics: %t: the client is shown the answer to a request of an entry that is not applied yet", panics)
				}
				if panics {
					panic("planted")
				}
			},
			Panicked: func(quorum.Entry, any, string) error { return ErrUntold }, // any
		})
		c = s.client(nil)
		s.write(c, "/a", jute.ModePersistent)
		s.write(c, "/b", jute.ModePersistent)
		s.index++
		data := proposals.AppendHead(nil, s.now, 0, 0)
		for _, record := range s.forward() {
			data = append(data, record...)
		}
		err := s.r.Apply([]quorum.Entry{{Term: s.term, Index: s.index, Data: data}})
		if (err != nil) != panics || s.r.Broken() != panics {
			t.Fatalf("panics: %t: %v, broken: %t", panics, err, s.r.Broken())
		}
		if panics {
			if early() {
				t.Error("the client is shown something after the panic")
			}
			s.r.Abandon()
		}
		if out := <-shown; len(out) == 0 {
			t.Errorf("panics: %t: the answer is gone", panics)
		}
	}
}
