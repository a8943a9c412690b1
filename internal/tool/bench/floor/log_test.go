package floor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLogSizes writes more than a piece: a filled log goes on at its
// beginning, the other one grows.
func TestLogSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filled       bool
		offset, size int64
	}{
		{true, 24 << 20, pieceSize},
		{false, 72 << 20, 2 * pieceSize},
	} {
		path := filepath.Join(t.TempDir(), "floor.log")
		l, err := openLog(path, c.filled)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for range 3 {
			if err := l.write(make([]byte, 24<<20)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if l.offset != c.offset || info.Size() != c.size {
			t.Errorf("filled %t: at %d of %d bytes, want %d of %d", c.filled, l.offset, info.Size(), c.offset, c.size)
		}
	}
}
