package check

import (
	"bytes"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
)

func goodHistory() *history.History {
	e := newEnsemble(5, 4)
	h := e.run(300)
	e.dump()
	h.Servers = []history.ServerLog{{Server: 2, Entries: e.log}}
	return h
}

func written(t testing.TB, h *history.History) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestProgress: Options.Progress is called as the check goes on, up to the last reply.
func TestProgress(t *testing.T) {
	var calls, last, of int
	Check(goodHistory(), Options{ExtendedTypes: true, Progress: func(done, total int) {
		if calls++; done < last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last, of = done, total
	}})
	if calls == 0 || of == 0 {
		t.Errorf("%d calls, %d of %d at last", calls, last, of)
	}
}
