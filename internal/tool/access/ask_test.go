package access

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
)

// TestAnswersAreWhole refuses an answer that is larger than any, rather than show a part.
func TestAnswersAreWhole(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 2)
	sent <- wordReplyMax
	sent <- wordReplyMax + 1
	address := freeport.Serve(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4))
		_, _ = c.Write(make([]byte, <-sent))
	})
	var a Access
	if reply, err := a.Ask(t.Context(), address, "cons"); err != nil || len(reply) != wordReplyMax {
		t.Errorf("at the limit: %d bytes, %v", len(reply), err)
	}
	if _, err := a.Ask(t.Context(), address, "cons"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("beyond it: %v", err)
	}
}

// TestEmptyLists: a server without watches may answer wchc and wchp with nothing; any other word gets an answer.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	address := freeport.Serve(t, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 4)) })
	var a Access
	for word, empty := range map[string]bool{"wchc": true, "wchp": true, "mntr": false, "ruok": false} {
		if reply, err := a.Ask(t.Context(), address, word); reply != "" || (err == nil) != empty {
			t.Errorf("%s: %q, %v", word, reply, err)
		}
	}
}
