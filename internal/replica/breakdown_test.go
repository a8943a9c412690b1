package replica

import (
	"errors"
	"fmt"
	"strings"
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

// TestBreakdownIsDescribed: whoever looks into a panic is told of the entry, the state, and how far it was applied.
func TestBreakdownIsDescribed(t *testing.T) {
	t.Parallel()
	var told []string
	s := newStage(t, Options{
		Observe: func(res *tree.Result) {
			if res.Path == "/bad" {
				panic("planted")
			}
		},
		Panicked: func(e quorum.Entry, cause any, about string) error {
			told = append(told, fmt.Sprintf("%d %d %v", e.Index, e.Term, cause), about)
			return errors.New("reported")
		},
	})
	create := func(path string) []byte {
		q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
		return tree.AppendRecord(nil, &tree.Request{Op: jute.OpCreate, Body: q.Append(nil)})
	}
	s.apply(create("/fine"))
	data := append(proposals.AppendHead(nil, s.now, 0, 0), create("/good")...)
	err := s.r.Apply([]quorum.Entry{{Term: 1, Index: 3, Data: append(data, create("/bad")...)}})
	if err == nil || err.Error() != "reported" || len(told) != 2 || told[0] != "3 1 planted" || !s.r.Broken() {
		t.Fatalf("%v; told %q", err, told)
	}
	if want := "last zxid 0x100000003, state at entry 3 of term 1"; !strings.HasPrefix(told[1], want) {
		t.Errorf("it is described as %q, want %q", told[1], want)
	}
	if !strings.Contains(told[1], "\n   0: create") || !strings.Contains(told[1], "\n-> 1: create") {
		t.Errorf("which request failed isn't in %q", told[1])
	}
	s.r.Abandon()
}
