package files

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeZnodes: what is said of data that the new servers don't take by default.
func TestLargeZnodes(t *testing.T) {
	t.Parallel()
	var l LargeZnodes
	sizes := []int{0, maxBufferDefault}
	for round, want := range []string{"", "1 znodes", "2 znodes have more data than jute.maxbuffer, 1048575 bytes by default: the largest, /n3, has 16777217"} {
		for _, size := range sizes {
			if err := l.Note(&Znode{Path: fmt.Sprint("/n", round+1), Data: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		if text := l.String(); !strings.Contains(text, want) || (want == "") != (text == "") ||
			strings.Contains(text, "at most 16777216") != (round == 2) {
			t.Errorf("%q; want %q", text, want)
		}
		sizes = []int{maxBufferDefault + 1}
		if round == 1 {
			sizes = []int{maxBufferMost + 1}
		}
	}
}
