package terminal

import (
	"bytes"
	"testing"
)

// TestProgress: a terminal is told how far the work is, one line at a time, and nobody else is.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		p := NewProgress(&out)
		if terminal {
			p = ProgressOn(&out)
		}
		p.Stage("reading")
		p.Detail("%d znodes", 1) // not due
		p.last = p.last.Add(-ProgressEvery)
		p.Detail("%d\x1b znodes\nand more", 2)
		p.End()
		p.End()
		want := ""
		if terminal {
			want = "\r\x1b[Kreading\r\x1b[Kreading: 2" + OneLine("\x1b znodes\nand more") + "\r\x1b[K"
		}
		if out.String() != want {
			t.Errorf("a terminal %t was told %q, want %q", terminal, out.String(), want)
		}
	}
}
