package check

import (
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
)

// FuzzCheck feeds any bytes through the reader and the checker: a damaged file
// is an error or a violation, never a crash.
func FuzzCheck(f *testing.F) {
	whole := written(f, goodHistory())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := history.Parse(b)
		if h != nil && len(h.Events) < 5000 {
			Check(h, Options{ViolationsMax: 10})
			h.Servers = nil
			Check(h, Apache("3.8.0"))
		}
	})
}
