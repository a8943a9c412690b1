package bench

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// TestProgressLine shows the line as a terminal gets it, in fake time.
func TestProgressLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &progress{line: terminal.ProgressOn(&b), prefix: "round 1: "}
		step := func(want string) {
			t.Helper()
			if got := b.String(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			b.Reset()
		}
		p.show("get", 1000, time.Second, 12*time.Second, 0)
		step("\r\x1b[Kround 1: get: 1.0k ops, 1.0k/s, 1 s of 12")
		p.show("get", 1001, time.Second, 12*time.Second, 0)
		step("") // too soon
		time.Sleep(time.Second)
		p.show("get", 101000, 2*time.Second, 12*time.Second, 0)
		step("\r\x1b[Kround 1: get: 101k ops, 100k/s, 2 s of 12")
		p.note("x")
		step("\r\x1b[Kround 1: x")
		time.Sleep(time.Second)
		p.show("load", 50, time.Second, 0, 200)
		step("\r\x1b[Kround 1: load: 50 ops, 50/s, 1 s (25 %)")
		p.clear()
		step("\r\x1b[K")
		var none *progress
		none.show("get", 1, 1, 1, 1)
		none.note("x")
		none.clear()
	})
}
