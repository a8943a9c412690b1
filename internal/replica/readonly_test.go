package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestReadOnlyNotAskedFor: without the setting nobody is served read-only.
func TestReadOnlyNotAskedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	r, unknown := s.r, NewClient(s.ids(), "unknown", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	r.cutOff = true
	for _, c := range []struct {
		enabled bool
		want    string
	}{{false, "not serving"}, {true, "did not ask"}} {
		r.readOnlyMode = c.enabled
		err := r.Connect(unknown, &jute.ConnectRequest{ReadOnly: !c.enabled, HasReadOnly: true}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("enabled %v: %v", c.enabled, err)
		}
	}
}

// TestReadOnlySilence: a read-only client that sends nothing for its timeout is
// closed, one that does is not.
func TestReadOnlySilence(t *testing.T) {
	t.Parallel()
	r := &Replica{state: state{clients: map[int64]*Client{}}}
	for id, heard := range map[int64]int64{1: 0, 2: 500} {
		c := NewClient(id, fmt.Sprint(id), jute.ID{}, Woken(func() {}))
		c.readOnly, c.timeout = true, 1000
		c.lastHeard.Store(heard)
		r.clients[id] = c
	}
	r.endSilent(1000)
	if r.clients[1].closing || r.clients[2].closing {
		t.Error("closed before its timeout")
	}
	r.endSilent(1001)
	if !r.clients[1].closing || r.clients[2].closing {
		t.Error("the wrong one is closed")
	}
}
